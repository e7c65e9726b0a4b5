"""The chores of a policy that rewrite files: compaction, clustering, file indexes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from operators.chore import parsed
from operators.chore_request import ChoreRequest, ChoreResult
from operators.task import xcom_summary

__all__ = ["CompactChore", "RewriteFileIndexChore"]

_LEASE_MS = 60_000
_NAMES = {"partition_idle_time_ms": "partition_idle_ms", "time_zone": "zone"}
"""The names of job parameters that differ from those of the command."""


class CompactChore:
    """`CompactTableOperator` as a chore of a policy; with `order-strategy` it sorts the rows of append
    tables.
    """

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
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        """Compact within the window: what is proven at its end is committed, the rest is left to the next
        run.
        """
        from lakecore.jobs import compact

        values = _values(request, cls.parameters) | _lease(request) | {"until_ms": request.until_ms}
        job = compact.Job.from_json(values)
        report = compact.run(job, request.lake, request.executor)
        change = f"{report.before.files} -> {report.after.files} files"
        text = "nothing to do" if report.nothing_to_do else f"{change}, {report.picks_left} picks left"
        raw = {"job": "compact"} | xcom_summary(report.to_json(), "dropped", "planned")
        return ChoreResult(job="compact", report=raw, text=f"compact of {request.table}: {text}")


class RewriteFileIndexChore:
    """`RewriteFileIndexOperator` as a chore of a policy."""

    parameters: ClassVar[Mapping[str, str]] = {"where": "text", "options": "options"}
    repeatable: ClassVar[bool] = True

    @classmethod
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        from lakecore.jobs import rewrite_file_index

        job = rewrite_file_index.Job.from_json(_values(request, cls.parameters) | _lease(request))
        report = rewrite_file_index.run(job, request.lake, request.executor)
        raw = {"job": "rewrite-file-index"} | xcom_summary(report.to_json(), "dropped")
        text = f"{report.files} of {report.planned} files have new indexes"
        return ChoreResult(
            job="rewrite-file-index", report=raw, text=f"rewrite-file-index of {request.table}: {text}"
        )


def _lease(request: ChoreRequest) -> dict[str, Any]:
    return {"lease_ms": _LEASE_MS, "wait_ms": request.safety.wait_ms, "owner": request.safety.owner}


def _values(request: ChoreRequest, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Return the job's arguments."""
    values: dict[str, Any] = {"table": request.table, "dry_run": request.dry_run}
    for name, raw in request.given.items():
        values |= parsed(name, kinds.get(name, "as it is"), raw)
    return {_NAMES.get(name, name): value for name, value in values.items()}
