"""What rewrites files as chores of a policy: compaction, clustering, file indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from operators.chore import parsed
from operators.task import small
from operators.turn import Told, Turn

__all__ = ["CompactChore", "RewriteFileIndexChore"]

_LEASE_MS = 60_000
_NAMES = {"partition_idle_time_ms": "partition_idle_ms", "time_zone": "zone"}
"""Where the job calls a parameter of the command otherwise."""


class CompactChore:
    """As `CompactTableOperator`; with `order-strategy` it puts the rows of append tables in order."""

    parameters: ClassVar[Mapping[str, str]] = {
        "strategy": "text",
        "order_strategy": "text",
        "order_by": "names",
        "force": "bool",
        "where": "text",
        "buckets": "text",
        "partition_idle_time": "span",
        "time_zone": "text",
        "options": "options",
        "proof": "text",
        "proof_seed": "text",
    }
    repeatable: ClassVar[bool] = True

    @classmethod
    def take(cls, turn: Turn) -> Told:
        """Within the window: what is proven by then is committed, the rest left to the next run."""
        from lakecore.jobs import compact

        values = _values(turn, cls.parameters) | _lease(turn) | {"until_ms": turn.until_ms}
        job = compact.Job.from_json(values)
        report = compact.run(job, turn.lake, turn.executor)
        change = f"{report.before.files} -> {report.after.files} files"
        text = "nothing to do" if report.nothing_to_do else f"{change}, {report.picks_left} picks left"
        raw = {"job": "compact"} | small(report.to_json(), "dropped", "planned")
        return Told(job="compact", report=raw, text=f"compact of {turn.table}: {text}")


class RewriteFileIndexChore:
    """As `RewriteFileIndexOperator`."""

    parameters: ClassVar[Mapping[str, str]] = {"where": "text", "options": "options"}
    repeatable: ClassVar[bool] = True

    @classmethod
    def take(cls, turn: Turn) -> Told:
        from lakecore.jobs import rewrite_file_index

        job = rewrite_file_index.Job.from_json(_values(turn, cls.parameters) | _lease(turn))
        report = rewrite_file_index.run(job, turn.lake, turn.executor)
        raw = {"job": "rewrite-file-index"} | small(report.to_json(), "dropped")
        text = f"{report.files} of {report.planned} files have new indexes"
        return Told(job="rewrite-file-index", report=raw, text=f"rewrite-file-index of {turn.table}: {text}")


def _lease(turn: Turn) -> dict[str, Any]:
    return {"lease_ms": _LEASE_MS, "wait_ms": turn.safety.wait_ms, "owner": turn.safety.owner}


def _values(turn: Turn, kinds: Mapping[str, str]) -> dict[str, Any]:
    """The job's arguments."""
    values: dict[str, Any] = {"table": turn.table, "dry_run": turn.dry_run}
    for name, raw in turn.given.items():
        values |= parsed(name, kinds.get(name, "as it is"), raw)
    return {_NAMES.get(name, name): value for name, value in values.items()}
