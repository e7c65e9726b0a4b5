"""This module has the reader of a streaming query whose micro-batches Spark limits. It needs Spark 4.2."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from lakecore.errors import LakeError
from lakecore.read.source.batch_limits import UNLIMITED
from lakecore.spark.data_source.stream_reader import StreamReader, offset_of
from lakecore.spark.progress import METRICS

__all__ = ["StreamReaderWithLimits"]

logger = logging.getLogger(__name__)

_NO_LIMIT_OF_ROWS = (1 << 63) - 1


class StreamReaderWithLimits(StreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc] # of pyspark
    """Spark says where each micro-batch begins, and whether the limits of the options hold for it."""

    _end: Mapping[str, Any] | None = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the names are Spark's
        """Return a limit where an option sets one. Spark gives it back, or one that says to read all."""
        if self._read.limits == UNLIMITED and self._read.alignment is None:
            return ReadAllAvailable()
        return ReadMaxRows(self._read.limits.rows or _NO_LIMIT_OF_ROWS)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the query end at the snapshot that is the latest now. It does not wait for its alignment group:
        a search without rows would end it.
        """
        self.planner().stop_at_latest()
        self._leave_group()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next micro-batch; see `MicroBatches.latest`."""
        reads_all = isinstance(limit, ReadAllAvailable)
        if reads_all:  # the trigger `once`
            self._leave_group()
        end = self.end_of_batch(start, UNLIMITED if reads_all else self._read.limits)
        self._end = end
        return end

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the metrics of the stream, which Spark shows in the progress of the query as the latest
        offset; None before the first micro-batch and where the newest snapshot cannot be read.

        Spark asks after each search for a micro-batch.
        """
        if self._end is None:
            return None
        try:
            metrics = self.planner().metrics(offset_of(self._end))
        except LakeError as err:
            logger.warning("table %s: no metrics of the stream: %s", self._read.table.name, err)
            return None
        return None if metrics is None else {METRICS: metrics}

    def _leave_group(self) -> None:
        self.planner().leave_group()
        if self._member is not None:
            self._member.leave()
            self._member = None
