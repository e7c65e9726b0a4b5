"""This module has the chores of a policy that rewrite files: compaction, clustering, file indexes."""

from __future__ import annotations

from typing import Any, ClassVar

from lakecore.jobs.definitions.compaction import Compact, RewriteFileIndex
from lakecore.jobs.definitions.table_job import Definition
from lakecore_airflow.tasks.chore_request import ChoreRequest, ChoreResult
from lakecore_airflow.tasks.table_task import xcom_summary

__all__ = ["CompactChore", "RewriteFileIndexChore"]


class CompactChore:
    """`CompactTableOperator` is a chore of a policy through this class; with `order-strategy` it sorts the
    rows of append tables.
    """

    definition: ClassVar[type[Definition]] = Compact
    repeatable: ClassVar[bool] = True

    @classmethod
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        """Compact within the window: what is proven at its end is committed, the rest is left to the next
        run.
        """
        from lakecore.jobs import compact
        from lakecore.jobs.definitions.values import new_job

        values = request.job_fields(Compact) | _lease(request) | {"until_ms": request.until_ms}
        report = compact.run(new_job(Compact, values), request.lake, request.executor)
        change = f"{report.before.files} -> {report.after.files} files"
        text = "nothing to do" if report.nothing_to_do else f"{change}, {report.picks_left} picks left"
        raw = {"job": "compact"} | xcom_summary(report.to_json(), "dropped", "planned")
        return ChoreResult(job="compact", report=raw, text=f"compact of {request.table}: {text}")


class RewriteFileIndexChore:
    """`RewriteFileIndexOperator` is a chore of a policy through this class."""

    definition: ClassVar[type[Definition]] = RewriteFileIndex
    repeatable: ClassVar[bool] = True

    @classmethod
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        from lakecore.jobs import rewrite_file_index
        from lakecore.jobs.definitions.values import new_job

        values = request.job_fields(RewriteFileIndex) | _lease(request) | {"until_ms": request.until_ms}
        job = new_job(RewriteFileIndex, values)
        report = rewrite_file_index.run(job, request.lake, request.executor)
        raw = {"job": "rewrite-file-index"} | xcom_summary(report.to_json(), "dropped")
        text = f"{report.files} of {report.planned} files have new indexes"
        return ChoreResult(
            job="rewrite-file-index", report=raw, text=f"rewrite-file-index of {request.table}: {text}"
        )


def _lease(request: ChoreRequest) -> dict[str, Any]:
    return {"wait_ms": request.safety.wait_ms, "owner": request.safety.owner}
