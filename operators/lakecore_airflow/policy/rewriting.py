"""This module has the chores of a policy that rewrite files: compaction, clustering, file indexes."""

from __future__ import annotations

from collections.abc import Mapping
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

        report = compact.run(cls.job_of(request), request.lake, request.executor)
        return cls.result_of(request, report.to_json())

    @classmethod
    def job_of(cls, request: ChoreRequest) -> Compact:
        from lakecore.jobs.definitions.values import new_job

        values = request.job_fields(Compact) | _lease(request) | {"until_ms": request.until_ms}
        return new_job(Compact, values)

    @classmethod
    def result_of(cls, request: ChoreRequest, report: Mapping[str, Any]) -> ChoreResult:
        change = f"{report['before']['files']} -> {report['after']['files']} files"
        text = "nothing to do" if report["nothing_to_do"] else f"{change}, {report['picks_left']} picks left"
        raw = {"job": "compact"} | xcom_summary(report, "dropped", "planned")
        return ChoreResult(job="compact", report=raw, text=f"compact of {request.table}: {text}")


class RewriteFileIndexChore:
    """`RewriteFileIndexOperator` is a chore of a policy through this class."""

    definition: ClassVar[type[Definition]] = RewriteFileIndex
    repeatable: ClassVar[bool] = True

    @classmethod
    def run_chore(cls, request: ChoreRequest) -> ChoreResult:
        from lakecore.jobs import rewrite_file_index

        report = rewrite_file_index.run(cls.job_of(request), request.lake, request.executor)
        return cls.result_of(request, report.to_json())

    @classmethod
    def job_of(cls, request: ChoreRequest) -> RewriteFileIndex:
        from lakecore.jobs.definitions.values import new_job

        values = request.job_fields(RewriteFileIndex) | _lease(request) | {"until_ms": request.until_ms}
        return new_job(RewriteFileIndex, values)

    @classmethod
    def result_of(cls, request: ChoreRequest, report: Mapping[str, Any]) -> ChoreResult:
        raw = {"job": "rewrite-file-index"} | xcom_summary(report, "dropped")
        text = f"{report['files']} of {report['planned']} files have new indexes"
        return ChoreResult(
            job="rewrite-file-index", report=raw, text=f"rewrite-file-index of {request.table}: {text}"
        )


def _lease(request: ChoreRequest) -> dict[str, Any]:
    return {"wait_ms": request.safety.wait_ms, "owner": request.safety.owner}
