"""A consumer that follows the change stream of a walked table: what it has added up must be the rows of the model.

Its position is stored in the table, so that expiry must leave what it has not read. It begins anew where streams of the
format have no changes: after overwrites, dropped partitions and returns to older states.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from lakecore.metadata.options import ChangelogProducer
from lakecore.metadata.row_kind import RowKind
from lakecore.row.json_rows import batch_to_json

__all__ = ["Follower"]

_CONSUMER = "walk"
Row = dict[str, Any]
Key = tuple[Any, ...]


class Follower:
    """It has the rows that a consumer of the table would have, by key."""

    def __init__(self, key: Callable[[Row], Key]) -> None:
        self._key = key
        self._stream: Any = None
        self.rows: dict[Key, Row] = {}
        self.changes = 0
        """How many changes came so far."""

    def restart(self) -> None:
        """Begin anew with the whole table at the next poll."""
        self._stream, self.rows = None, {}

    def reopen(self, table: Any, rows: dict[Key, Row]) -> None:
        """Go on at the same position with the columns that the table has now; `rows`: these so far, with these columns."""
        position = None if self._stream is None else self._stream.next_snapshot
        if position is None:
            self.restart()
        else:
            self.rows = rows
            self._stream = table.stream(next_snapshot=position, consumer=_CONSUMER)

    def poll(self, table: Any) -> None:
        """Add up all that there is by now. Raises AssertionError for a change that contradicts the rows so far."""
        if self._stream is None:
            table._stores.consumers.delete(_CONSUMER)
            self._stream = table.stream(consumer=_CONSUMER)
        for changes in self._stream:
            names = [field.name for field in changes.rows.row_type.fields]
            for batch in changes.to_batches():
                kinds = batch.column("_VALUE_KIND").to_pylist()
                texts = batch_to_json(batch.select(names), changes.rows.row_type)
                for kind, text in zip(kinds, texts, strict=True):
                    self._apply(table, RowKind(kind), json.loads(text))
            self.changes += 1
        self._stream.acknowledge()

    def is_in_step(self, table: Any) -> bool:
        """Return whether the stream has all rows: a changelog of compactions has those that were compacted."""
        latest = table.latest_snapshot()
        producer = table.options.changelog_producer
        if producer is ChangelogProducer.NONE or latest is None:
            return True
        levels = {entry.file.level for entry in table._scanner.live_entries(latest).rows()}
        return (
            0 not in levels if producer is ChangelogProducer.LOOKUP else len(levels) < 2 and 0 not in levels
        )

    def _apply(self, table: Any, kind: RowKind, row: Row) -> None:
        key = self._key(row)
        if table.options.changelog_producer is not ChangelogProducer.NONE or not table.schema.primary_keys:
            _check_order(kind, row, self.rows.get(key))
        if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            self.rows[key] = row
        elif kind is RowKind.DELETE or table.options.changelog_producer is not ChangelogProducer.NONE:
            self.rows.pop(key, None)


def _check_order(kind: RowKind, row: Row, before: Mapping[str, Any] | None) -> None:
    """A changelog takes back what it announced, and announces no key twice."""
    takes_back = kind in (RowKind.DELETE, RowKind.UPDATE_BEFORE)
    if takes_back and before != row:
        raise AssertionError(f"the stream takes back {row} where it has announced {before}")
    if not takes_back and before is not None:
        raise AssertionError(f"the stream announces {kind.symbol} {row} beside {before}")
