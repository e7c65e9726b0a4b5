"""Maintenance of a table as Airflow tasks: one operator a chore, all of one shape.

Every operator names the job of `lakecore.jobs` that it runs and the parameters that it takes; the
parameters are those of Paimon's procedures, they are templated, and an empty text means that they are not
given.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from operators.hooks import LakeHook, airflow_errors

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.jobs.chore import Report

__all__ = [
    "ChoreOperator",
    "ClearConsumersOperator",
    "CompactManifestOperator",
    "CreateBranchOperator",
    "CreateTagOperator",
    "DeleteBranchOperator",
    "DeleteTagOperator",
    "DropPartitionOperator",
    "ExpireChangelogsOperator",
    "ExpireConsumersOperator",
    "ExpirePartitionsOperator",
    "ExpireSnapshotsOperator",
    "ExpireTagsOperator",
    "FastForwardOperator",
    "MarkPartitionDoneOperator",
    "RemoveOrphanFilesOperator",
    "RenameBranchOperator",
    "RenameTagOperator",
    "RepairHintsOperator",
    "ReplaceTagOperator",
    "ResetConsumerOperator",
    "RollbackToAsLatestOperator",
    "RollbackToOperator",
]

_LISTED = 20
_GENERAL = ("table", "lake_conn_id")


def _named_init(parameters: Mapping[str, str]) -> Callable[..., None]:
    """The constructor with the parameters by name: mapping and `default_args` look at its signature."""

    def init(self: ChoreOperator, **kwargs: Any) -> None:
        ChoreOperator.__init__(self, **kwargs)

    known = list(inspect.signature(ChoreOperator.__init__).parameters.values())
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in parameters]
    setattr(init, "__signature__", inspect.Signature([*known[:-1], *named, known[-1]]))  # noqa: B010
    return init


class ChoreOperator(BaseOperator):
    """What all maintenance operators share: a table, a dry run, how careful to be, a small JSON report as
    XCom.

    A task that is repeated after it was killed finishes what its first try began. Two tasks on one table do
    not meet: the second fails for now and is retried. Where a run used the quarantine, the report's `run` is
    what `lakecore undo` takes.

    :param table: `database.table`, or `database.table$branch_NAME`. (templated)
    :param dry_run: report what would happen and change nothing.
    :param quarantine: move files aside for a while instead of deleting them; None as the chore does by
    itself.
    """

    module: ClassVar[str]
    """The module of `lakecore.jobs` that has the job."""
    job: ClassVar[str] = "Job"
    """The name of its job class."""
    parameters: ClassVar[Mapping[str, str]] = {}
    """What the operator takes besides: name to kind (`text`, `int`, `bool`, `moment`, `span`,
    `options`, `names`).
    """

    template_fields: Sequence[str] = _GENERAL
    ui_color = "#e8e3f3"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.template_fields = (*_GENERAL, *cls.parameters)
        setattr(cls, "__init__", _named_init(cls.parameters))  # noqa: B010 - mypy takes it for a mistake

    def __init__(
        self,
        *,
        table: str,
        dry_run: bool = False,
        quarantine: bool | None = None,
        lake_conn_id: str = LakeHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        given = {name: kwargs.pop(name, None) for name in self.parameters}
        super().__init__(**kwargs)
        self.table = table
        self.preview = dry_run
        self.quarantine = quarantine
        self.lake_conn_id = lake_conn_id
        for name, value in given.items():
            setattr(self, name, value)

    def execute(self, context: Context) -> dict[str, Any]:
        from lakecore.jobs.chore import Safety

        ti = context["ti"]
        owner = f"{ti.dag_id}/{ti.task_id}/{ti.run_id}/{ti.map_index}".replace(" ", "_")
        module = importlib.import_module(f"lakecore.jobs.{self.module}")
        with airflow_errors():
            values = {
                key: value
                for name, kind in self.parameters.items()
                for key, value in _parsed(name, kind, getattr(self, name)).items()
            }
            safety = Safety(quarantine=self.quarantine, owner=owner)
            job = getattr(module, self.job)(table=self.table, dry_run=self.preview, safety=safety, **values)
            report: Report = module.run(job, LakeHook(self.lake_conn_id).catalog())
        self.log.info("%s of %s: %s", report.job, report.table, report)
        return _small(report)


class ExpireSnapshotsOperator(ChoreOperator):
    """Delete old snapshots and the files that only they need.

    :param retain_max: keep at most so many; None as the table's options say.
    :param retain_min: keep at least so many.
    :param older_than: date and time (UTC unless it says); younger ones go only for `retain_max`.
    :param max_deletes: expire at most so many in this run.
    :param options: table options for this run only.
    """

    module = "expire_snapshots"
    parameters: ClassVar = {
        "retain_max": "int",
        "retain_min": "int",
        "older_than": "moment",
        "max_deletes": "int",
        "options": "options",
    }


class ExpireChangelogsOperator(ChoreOperator):
    """Delete old changelogs that outlived their snapshots; parameters as for snapshots.

    :param delete_all: all of them, whatever the limits say.
    """

    module = "expire_changelogs"
    parameters: ClassVar = {**ExpireSnapshotsOperator.parameters, "delete_all": "bool"}


class RemoveOrphanFilesOperator(ChoreOperator):
    """Move files that nothing refers to into the quarantine.

    :param older_than: younger files are left alone; None is a day ago.
    :param allow_empty: also for a table without any snapshot, tag or changelog.
    """

    module = "remove_orphan_files"
    parameters: ClassVar = {"older_than": "moment", "allow_empty": "bool"}


class CreateTagOperator(ChoreOperator):
    """Tag a snapshot; at most one of `snapshot`, `timestamp` and `watermark`, none of them is the latest.

    A retry, or a second run for the same snapshot, finds the tag and does nothing.

    :param tag: its name, for example `{{ ds }}`.
    :param timestamp: the first snapshot committed at or after this time.
    :param watermark: the first snapshot with at least this watermark, in milliseconds.
    :param time_retained: how long the tag stays, for example `7 d`.
    :param ignore_if_exists: a tag of that name is left as it is, whatever it stands for.
    """

    module = "tags"
    job = "CreateTag"
    parameters: ClassVar = {
        "tag": "text",
        "snapshot": "int",
        "timestamp": "moment",
        "watermark": "int",
        "time_retained": "span",
        "ignore_if_exists": "bool",
        "zone": "text",
    }


class ReplaceTagOperator(ChoreOperator):
    """Let a tag stand for another snapshot, without a gap."""

    module = "tags"
    job = "ReplaceTag"
    parameters: ClassVar = {"tag": "text", "snapshot": "int", "time_retained": "span", "zone": "text"}


class RenameTagOperator(ChoreOperator):
    """Give a tag another name."""

    module = "tags"
    job = "RenameTag"
    parameters: ClassVar = {"tag": "text", "target_tag": "text"}


class DeleteTagOperator(ChoreOperator):
    """Delete tags and what only they need.

    :param tags: names, as a list or split by commas.
    """

    module = "tags"
    job = "DeleteTag"
    parameters: ClassVar = {"tags": "names"}


class ExpireTagsOperator(ChoreOperator):
    """Delete tags whose time has passed, and those made before `older_than`."""

    module = "tags"
    job = "ExpireTags"
    parameters: ClassVar = {"older_than": "moment", "zone": "text"}


class RollbackToOperator(ChoreOperator):
    """Go back to an older state: exactly one of `snapshot`, `tag`, `timestamp`, `watermark`. Stop
    writers first.
    """

    module = "rollback"
    job = "RollbackTo"
    parameters: ClassVar = {"snapshot": "int", "tag": "text", "timestamp": "moment", "watermark": "int"}


class RollbackToAsLatestOperator(ChoreOperator):
    """Commit an older state as the newest snapshot; nothing is removed. A retry commits it again.

    :param snapshot: or `tag`: the state.
    """

    module = "rollback"
    job = "RollbackToAsLatest"
    parameters: ClassVar = {"snapshot": "int", "tag": "text"}


class ResetConsumerOperator(ChoreOperator):
    """Let a consumer go on at `next_snapshot`; None forgets it."""

    module = "consumers"
    job = "ResetConsumer"
    parameters: ClassVar = {"consumer": "text", "next_snapshot": "int"}


class ClearConsumersOperator(ChoreOperator):
    """Forget consumers by regular expressions on their names."""

    module = "consumers"
    job = "ClearConsumers"
    parameters: ClassVar = {"including": "text", "excluding": "text"}


class ExpireConsumersOperator(ChoreOperator):
    """Forget consumers that have not moved for a time; None is the table's option.

    :param expiration: for example `30 d`.
    """

    module = "consumers"
    job = "ExpireConsumers"
    parameters: ClassVar = {"expiration": "span"}


class ExpirePartitionsOperator(ChoreOperator):
    """Drop partitions that are too old; parameters as Paimon's `expire_partitions`.

    :param expiration: for example `30 d`; None is the table's option.
    :param expire_strategy: `values-time` or `update-time`.
    :param zone: of the clock that partitions were written by.
    """

    module = "partitions"
    job = "ExpirePartitions"
    parameters: ClassVar = {
        "expiration": "span",
        "timestamp_formatter": "text",
        "timestamp_pattern": "text",
        "expire_strategy": "text",
        "max_expires": "int",
        "zone": "text",
        "options": "options",
    }


class DropPartitionOperator(ChoreOperator):
    """Remove all rows of partitions.

    :param partitions: `dt=a,hh=b;dt=c`.
    """

    module = "partitions"
    job = "DropPartition"
    parameters: ClassVar = {"partitions": "text"}


class MarkPartitionDoneOperator(ChoreOperator):
    """Say that partitions are complete: a file `_SUCCESS` in each.

    :param partitions: `dt=a,hh=b;dt=c`, with all partition columns.
    """

    module = "partitions"
    job = "MarkPartitionDone"
    parameters: ClassVar = {"partitions": "text"}


class CreateBranchOperator(ChoreOperator):
    """Make a branch: from `tag`, or empty."""

    module = "branches"
    job = "CreateBranch"
    parameters: ClassVar = {"branch": "text", "tag": "text", "ignore_if_exists": "bool"}


class DeleteBranchOperator(ChoreOperator):
    """Delete a branch; into the quarantine."""

    module = "branches"
    job = "DeleteBranch"
    parameters: ClassVar = {"branch": "text"}


class RenameBranchOperator(ChoreOperator):
    """Give a branch another name."""

    module = "branches"
    job = "RenameBranch"
    parameters: ClassVar = {"branch": "text", "target_branch": "text"}


class FastForwardOperator(ChoreOperator):
    """Let main become what a branch is. Stop writers first."""

    module = "branches"
    job = "FastForward"
    parameters: ClassVar = {"branch": "text"}


class RepairHintsOperator(ChoreOperator):
    """Let the hints LATEST and EARLIEST of a table say what is there."""

    module = "repair"
    job = "RepairHints"


class CompactManifestOperator(ChoreOperator):
    """Rewrite many small manifests as few; changes no row."""

    module = "repair"
    job = "CompactManifest"
    parameters: ClassVar = {"options": "options"}


def _parsed(name: str, kind: str, value: Any) -> dict[str, Any]:
    """The argument of the job, or none: rendered templates are text, and an empty one means nothing."""
    from lakecore.errors import InvalidInputError
    from lakecore.jobs.moment import parse_moment, parse_span

    if value is None or (isinstance(value, str) and value.strip() in ("", "None")):
        return {}
    if kind == "moment":
        return {f"{name}_ms": parse_moment(str(value), name)}
    if kind == "span":
        return {f"{name}_ms": parse_span(str(value), name)}
    if kind == "options":
        return {name: dict(value)}
    if kind == "bool":
        return {name: str(value).strip().lower() == "true"}
    if kind == "names":
        found = value.split(",") if isinstance(value, str) else value
        return {name: tuple(str(one).strip() for one in found)}
    try:
        return {name: int(value) if kind == "int" else str(value)}
    except ValueError as err:
        raise InvalidInputError(f"{name}={value!r}: use a whole number") from err


def _small(report: Report) -> dict[str, Any]:
    """The report for XCom: of long lists the first entries, and how many there are."""
    raw = report.to_json()
    lists = {name: raw[name] for name in ("snapshots", "names", "notes")}
    counts = {f"{name}_count": len(found) for name, found in lists.items()}
    return raw | counts | {name: found[:_LISTED] for name, found in lists.items()}
