"""This package reports lineage: which tables a program reads and writes.

Every batch read of rows of a table, and every commit, is an event for the listeners: functions of other
packages that are entry points of the group `lakecore.lineage`, and OpenLineage, if its client is installed
and the environment configures it. What a listener raises is logged; it never fails the read or the commit.
Without listeners an event costs nothing.
"""

from __future__ import annotations

from lakecore.lineage.event import LineageDataset, LineageEvent
from lakecore.lineage.report import lineage_job

__all__ = ["LineageDataset", "LineageEvent", "lineage_job"]
