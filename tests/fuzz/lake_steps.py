"""Steps as jobs and calls of lakecore."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.clock import SystemClock
from lakecore.errors import UnsupportedError
from lakecore.executor import SerialExecutor
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import compact, expire_snapshots, partitions, remove_orphan_files
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import branches, rollback, tags
from lakecore.row.json_rows import json_to_batch
from lakecore.table import Table
from lakecore.verify.mode import ProofMode
from tests.fuzz.history import Step
from tests.fuzz.java_steps import partition_text

__all__ = ["condition", "lake_step", "write_rows"]

_FOR_GOOD = Safety(quarantine=False)
"""What lies in the quarantine keeps its files in the table, where checks take them for orphans."""


def lake_step(
    catalog: FilesystemCatalog,
    name: str,
    step: Step,
    user: str,
    between: Callable[[], None] | None = None,
    *,
    write: Callable[[Table, Step], None] | None = None,
) -> Any:
    """Do `step` on table `name`. `between`: called once, after a compaction's plan and before its commit.
    `write`: it writes the rows, in place of `write_rows`.

    The report of a job, else None. Raises LakeError.
    """
    match step.op:
        case "alter":
            catalog.alter_table(name, [step.change or {}])
        case "compact":
            return compact.run(_compaction(name, step, user), catalog, _Interrupted(between))
        case "write" | "overwrite":
            (write or write_rows)(catalog.load_table(name), step)
        case "delete":
            _delete(catalog.load_table(name), step.rows[0])
        case _:
            return _chore(catalog, name, step)
    return None


class _Interrupted(SerialExecutor):
    """Calls `between` before the first unit of work."""

    def __init__(self, between: Callable[[], None] | None) -> None:
        super().__init__()
        self._between = between

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        between, self._between = self._between, None
        if between is not None:
            between()
        yield from super().run(function, tasks)


def _compaction(name: str, step: Step, user: str) -> compact.Job:
    return compact.Job(
        table=name,
        strategy=compact.Strategy.FULL if step.full else compact.Strategy.UNIVERSAL,
        proof=_mode(step.proof),
        copy=CopyMode(step.copy or CopyMode.NONE.value),
        commit_user=user,
        where=step.where or None,
        buckets=step.buckets or None,
    )


def _mode(name: str) -> ProofMode:
    """Histories that were kept may name a mode that has another name now: then the default."""
    named = [mode for mode in ProofMode if mode.value == name]
    return named[0] if named else compact.Job(table="").proof


def _chore(catalog: FilesystemCatalog, name: str, step: Step) -> Any:
    match step.op:
        case "expire":
            return expire_snapshots.run(
                expire_snapshots.Job(table=name, retain_max=step.keep, retain_min=1), catalog
            )
        case "tag":
            return tags.run(tags.CreateTag(table=name, tag=step.name), catalog)
        case "untag":
            return tags.run(tags.DeleteTag(table=name, tags=(step.name,), safety=_FOR_GOOD), catalog)
        case "rollback":
            return rollback.run(rollback.RollbackTo(table=name, tag=step.name, safety=_FOR_GOOD), catalog)
        case "branch":
            return branches.run(branches.CreateBranch(table=name, branch=step.name, tag=step.tag), catalog)
        case "unbranch":
            return branches.run(
                branches.DeleteBranch(table=name, branch=step.name, safety=_FOR_GOOD), catalog
            )
        case "orphans":
            now_ms = SystemClock().now_ms()
            job = remove_orphan_files.Job(
                table=name, older_than_ms=now_ms - 1, allow_empty=True, safety=_FOR_GOOD
            )
            return remove_orphan_files.run(job, catalog)
        case "drop":
            text = partition_text(step.partition or {})
            return partitions.run(partitions.DropPartition(table=name, partitions=text), catalog)
    raise ValueError(f"no such step: {step.op}")


def write_rows(table: Table, step: Step) -> None:
    """Write or overwrite in this process."""
    rows = json_to_batch(map(json.dumps, step.rows), table.schema.row_type)
    if step.op == "write":
        table.write(rows)
    elif step.partition:
        table.overwrite(rows, partition_text(step.partition))
    else:
        table.overwrite(rows)


def _delete(table: Table, row: Mapping[str, Any]) -> None:
    delete = getattr(table, "delete", None)
    if delete is None:
        raise UnsupportedError("delete: rows of append tables")
    delete(condition(table, row))


def condition(table: Table, row: Mapping[str, Any]) -> str:
    """What holds for rows equal to `row`, which has one column."""
    ((name, value),) = row.items()
    kind = str(table.schema.row_type.field(name).type)
    if isinstance(value, str) and not kind.startswith("DECIMAL"):
        value = value.replace("'", "''")
        return f"{name} = '{value}'"
    return f"{name} = {str(value).upper() if isinstance(value, bool) else value}"
