"""This module joins the reports of the tables of a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakecore.errors import LakeError
from lakecore.jobs.runner.report import Report

__all__ = ["joined_report"]


def joined_report(
    report: Report, reports: Sequence[Report], notes: Sequence[str], errors: Sequence[LakeError]
) -> Report:
    """Return `report` with the tables, files and bytes of all reports. Raises the first error when all tables
    failed.
    """
    if errors and not reports:
        raise errors[0]
    return replace(
        report,
        names=tuple(one.table for one in reports),
        files=sum(one.files for one in reports),
        bytes=sum(one.bytes for one in reports),
        notes=tuple(notes),
    )
