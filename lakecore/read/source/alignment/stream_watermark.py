"""This module tells the watermark of changes from their plan, before any row is read.

It is the latest event time that the statistics of the files have, less the delay, where the table has a rule
of event times; otherwise, and where statistics are missing, it is the watermark of the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.format.statistics import recorded_bounds
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.option_rules.event_times import EventTimeRule
from lakecore.read.source.change_pieces import split_of
from lakecore.read.source.readable import Readable
from lakecore.read.source.stream import Changes

__all__ = ["StreamWatermark"]

_NANOS_OF_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class StreamWatermark:
    """It tells the watermark of the changes of a table."""

    table: Readable
    rule: EventTimeRule | None

    def of_changes(self, changes: Changes) -> int | None:
        """Return the watermark in milliseconds; None where neither the files nor the snapshot have one.

        It decodes the statistics of each file, and reads the schema of files that an older one wrote.
        """
        if self.rule is None:
            return changes.snapshot.watermark
        files = [file for part in changes.parts for file in split_of(part).files]
        latest = self._latest(files, self.rule.column)
        return changes.snapshot.watermark if latest is None else latest - self.rule.delay_ms

    def _latest(self, files: Iterable[DataFile], column: str) -> int | None:
        """Return the latest time of a column; None if a file does not tell, or no row has a time."""
        latest: int | None = None
        for file in files:
            time = self._latest_of(file, column)
            if time is None:
                return None
            latest = time if latest is None else max(latest, time)
        return latest

    def _latest_of(self, file: DataFile, column: str) -> int | None:
        schema = self.table._read_context().file_schema(file.schema_id)
        ours = self.table.schema.row_type.field(column)
        stored = next((field for field in schema.fields if field.id == ours.id), None)
        if stored is None or stored.type != ours.type:
            return None
        try:
            bounds = recorded_bounds(file, schema.row_type).get(stored.name)
        except CorruptDataError:
            return None  # the read of the file, or `fsck`, reports it
        latest = None if bounds is None else bounds.maximum
        return None if latest is None else int(latest) // _NANOS_OF_MS
