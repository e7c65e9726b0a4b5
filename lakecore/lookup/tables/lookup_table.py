"""This module has the lookup table: what `Table.new_lookup` returns."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.lookup.tables.blocks import BlockCache
from lakecore.lookup.tables.follower import Follower, LookupRead
from lakecore.lookup.tables.full_cache import FullCache
from lakecore.lookup.tables.key_bytes import KeyForm
from lakecore.lookup.tables.loaded_partitions import PARTITIONS, parse_loaded, partitions_of
from lakecore.lookup.tables.lookup_options import (
    CacheMode,
    LookupOptions,
    check_changes,
    follows_compactions,
    is_partial,
)
from lakecore.lookup.tables.partial_cache import PartialCache
from lakecore.lookup.tables.refresh_turns import RefreshTurns
from lakecore.lookup.tables.run import Layout, Storage
from lakecore.lookup.tables.service_cache import ServiceCache, ServiceQuery
from lakecore.lookup.tables.upserts import ChangeRules
from lakecore.metadata.options import ChangelogProducer, SequenceOrder
from lakecore.metadata.row_kind import KIND_NAME
from lakecore.predicate.parse import parse_where
from lakecore.predicate.tree import Predicate, columns_of
from lakecore.read.source.readable import Readable
from lakecore.read.source.scan import checked_columns
from lakecore.scan.support import check_streamable
from lakecore.types.arrow import arrow_schema
from lakecore.types.exact_array import exact_array

__all__ = ["KEY_ROW", "LookupRequest", "LookupTable", "OpenService", "checked_request"]

KEY_ROW = "_KEY_ROW"
"""This column of a result has the number of the key, from 0."""
_HOW = ("inner", "left")
OpenService = Callable[[], ServiceQuery | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupRequest:
    """It says what a lookup table is asked for."""

    on: tuple[str, ...]
    """These columns are looked up."""
    columns: tuple[str, ...]
    """These columns are found."""
    where: Predicate | None
    """Only rows for which it is true are found."""
    buckets: frozenset[int] | None
    """Only rows of these buckets are found; None for all."""
    directory: str
    """Large caches have files in this directory; they have no names."""


class LookupTable:
    """It finds the rows that have given values in the columns of a join, and follows the table.

    Several threads may use it. A lookup sees the rows of one snapshot. Close it, or use it as a context
    manager.
    """

    def __init__(self, table: Readable, request: LookupRequest, service: OpenService) -> None:
        """Load the rows by the table's options. Use `Table.new_lookup`, which checks the request. `service`
        opens a query on the query service of the table; it returns None where none can be asked.
        """
        options = LookupOptions.read(table.schema.options)
        self._table = table
        self._open_service = service
        self._request = request
        self._closed = False
        self.on = request.on
        """The columns that are looked up."""
        stored = arrow_schema(table.schema.row_type.select(request.columns))
        self.schema = pa.schema([column.with_nullable(True) for column in stored])
        """The Arrow schema of found rows; all columns are nullable."""
        self._scope = self._loaded_partitions()
        self._partitions: tuple[tuple[Any, ...], ...] | None = None
        self._cache = self._partial() or self._full(options)
        clock = table._stores.clock
        moves = self._scope is not None
        self._turns = RefreshTurns(self._cache, options, clock, self._look_for_partitions if moves else None)
        self._turns.begin()

    def __enter__(self) -> LookupTable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def kind(self) -> str:
        """Return what is kept: `partial` if only what lookups need is, `full` if all rows are, `service` if
        nothing is, because the query service of the table is asked.
        """
        if isinstance(self._cache, ServiceCache):
            return "service" if self._cache.asks_service else "partial"
        return "partial" if isinstance(self._cache, PartialCache) else "full"

    @property
    def snapshot_id(self) -> int | None:
        """Return the snapshot whose rows are found; None before there is one, and while a query service is
        asked, which does not say.
        """
        return self._cache.snapshot_id

    @property
    def partitions(self) -> tuple[tuple[Any, ...], ...] | None:
        """Return the values of the partitions whose rows are found, as internal values; None for all."""
        return self._partitions

    def refresh(self) -> int | None:
        """Return the id of the latest snapshot, after the table was followed to it."""
        self._check_open()
        self._turns.refresh_now()
        return self.snapshot_id

    def lookup(self, keys: pa.Table) -> pa.Table:
        """Return the rows that match the keys, which are found in the columns `on`; other columns are
        ignored.

        The first column of the result, `_KEY_ROW`, has the number of the key, from 0; rows are ordered by
        it. A key may match no row, one, or several. A null matches nothing. Before, the table is refreshed
        if that is due. Raises InvalidInputError for a column that is missing or has another type.
        """
        self._check_open()
        if missing := [name for name in self.on if name not in keys.column_names]:
            raise InvalidInputError(
                f"table {self._table.name}: keys need the columns {', '.join(self.on)}, but "
                f"{missing[0]} is missing"
            )
        self._turns.refresh_when_due()
        numbers, rows = self._cache.joined(keys.select(list(self.on)))
        columns = [rows.column(field.name).cast(field.type) for field in self.schema]
        schema = pa.schema([pa.field(KEY_ROW, pa.int64()), *self.schema])
        return pa.Table.from_arrays([pa.chunked_array([pa.array(numbers)]), *columns], schema=schema)

    def lookup_key(self, *values: object) -> list[dict[str, Any]]:
        """Return the rows of one key, whose values are in the order of `on`."""
        kinds = arrow_schema(self._table.schema.row_type.select(self.on))
        if len(values) != len(kinds):
            raise InvalidInputError(
                f"table {self._table.name}: a key has {len(kinds)} values ({', '.join(self.on)}), but "
                f"{len(values)} were given"
            )
        try:
            arrays = [exact_array(value, kind.type) for value, kind in zip(values, kinds, strict=True)]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as err:
            raise InvalidInputError(f"table {self._table.name}: key {values!r}: {err}") from err
        rows: list[dict[str, Any]] = self.lookup(pa.Table.from_arrays(arrays, names=kinds.names)).to_pylist()
        return [{name: value for name, value in row.items() if name != KEY_ROW} for row in rows]

    def join_batches(
        self,
        batches: Iterable[pa.RecordBatch],
        on: Mapping[str, str] | None = None,
        how: str = "left",
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `batches` with the columns of the rows that they match, in their order.

        `on` maps columns of the batches to columns of the table, None if they have the same names. `how`:
        `left` keeps rows that match nothing, with nulls; `inner` leaves them out. Columns of the join are
        not repeated. The table is refreshed between two batches if that is due. Raises InvalidInputError
        when both sides have a column of one name.
        """
        names = {name: name for name in self.on} if on is None else dict(on)
        if how not in _HOW:
            raise InvalidInputError(f"how={how!r}: a lookup join is {' or '.join(_HOW)}")
        if sorted(names.values()) != sorted(self.on):
            raise InvalidInputError(
                f"on={names!r}: the lookup of table {self._table.name} is by {', '.join(self.on)}; "
                f"name each once"
            )
        for batch in batches:
            yield from self._join(pa.Table.from_batches([batch]), names, how)

    def close(self) -> None:
        """Release the rows and their files; later calls do nothing. Lookups fail from now on."""
        if not self._closed:
            self._closed = True
            self._turns.close()
            self._cache.close()

    def _join(self, table: pa.Table, names: Mapping[str, str], how: str) -> list[pa.RecordBatch]:
        both = [name for name in self._new_columns() if name in table.column_names]
        if both:
            raise InvalidInputError(
                f"column {both[0]!r} is in the batches and in table {self._table.name}: rename it, or "
                f"name other columns"
            )
        if missing := [name for name in names if name not in table.column_names]:
            raise InvalidInputError(f"column {missing[0]!r}, which is looked up, is not in the batches")
        keys = pa.Table.from_arrays([table.column(name) for name in names], names=list(names.values()))
        matches = self.lookup(keys)
        numbers = matches.column(KEY_ROW).to_numpy()
        rows = matches.select(self._new_columns())
        order = pa.array(np.arange(len(numbers)))
        if how == "left":
            absent = np.setdiff1d(np.arange(table.num_rows), numbers)
            places = np.concatenate([np.arange(len(numbers)), np.full(len(absent), -1)])
            numbers = np.concatenate([numbers, absent])
            by_number = np.argsort(numbers, kind="stable")
            numbers, places = numbers[by_number], places[by_number]
            order = pa.array(places, mask=places < 0)
        left_rows, joined = table.take(pa.array(numbers)), rows.combine_chunks().take(order)
        columns = [*left_rows.columns, *joined.columns]
        schema = pa.schema([*table.schema, *rows.schema])
        batches: list[pa.RecordBatch] = (
            pa.Table.from_arrays(columns, schema=schema).combine_chunks().to_batches()
        )
        return batches

    def _new_columns(self) -> list[str]:
        return [name for name in self._request.columns if name not in self.on]

    def joined_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the batches that `join_batches` yields for batches of `schema`."""
        return pa.schema([*schema, *(self.schema.field(name) for name in self._new_columns())])

    def _loaded_partitions(self) -> Any:
        schema = self._table.schema
        text = PARTITIONS.read(schema.options)
        if text is None:
            return None
        if both := [name for name in self.on if name in schema.partition_keys]:
            raise InvalidInputError(
                f"table {self._table.name}: option {PARTITIONS.key} decides about partitions, so that "
                f"partition "
                f"column {both[0]} cannot be looked up; leave it out of on, or unset the option"
            )
        return parse_loaded(schema, self._table.options.partition_default_name, text)

    def _look_for_partitions(self) -> bool:
        existing: tuple[tuple[Any, ...], ...] = ()
        if self._scope.moves:
            follower = Follower(self._table, LookupRead(columns=()))
            snapshot = follower.start()
            existing = () if snapshot is None else follower.partitions(snapshot)
        partitions = partitions_of(self._scope, existing)
        changed, self._partitions = partitions != self._partitions, partitions
        if changed and isinstance(self._cache, FullCache):
            self._cache.use_partitions(partitions)
        return changed

    def _partial(self) -> PartialCache | ServiceCache | None:
        """Return a cache that keeps what lookups need, if the table and the request allow it; one that asks
        the query service, if the table has one.
        """
        request, table = self._request, self._table
        more = columns_of(request.where) if request.where is not None else ()
        columns = (*request.columns, *more)
        partial = is_partial(table.name, table.schema, table.options, request.on, columns)
        if request.buckets is not None or not partial:
            return None
        local = PartialCache(table, request.columns, request.where)
        query = self._open_service()
        return local if query is None else ServiceCache(self._table.name, query, request.where, local)

    def _full(self, options: LookupOptions) -> FullCache:
        table, request = self._table, self._request
        schema, chosen = table.schema, table.options
        check_streamable(table.name, schema)
        compactions = bool(schema.primary_keys) and follows_compactions(schema, chosen)
        producers = (ChangelogProducer.LOOKUP, ChangelogProducer.FULL_COMPACTION)
        exact = compactions or chosen.changelog_producer in producers
        sequence = chosen.sequence_fields if schema.primary_keys and not exact else ()
        column_names = {*request.columns, *request.on, *schema.primary_keys, *sequence}
        columns = tuple(name for name in schema.row_type.names if name in column_names)
        check_changes(table.name, schema, chosen, columns)
        row_type = schema.row_type
        stored = pa.schema([field.with_nullable(True) for field in arrow_schema(row_type.select(columns))])
        if sequence:
            stored = stored.append(pa.field(KIND_NAME, pa.int8()))
        join = KeyForm.of(table.name, row_type, request.on)
        primary = KeyForm.of(table.name, row_type, schema.primary_keys) if schema.primary_keys else None
        if primary is not None and set(request.on) == set(schema.primary_keys):
            primary = join
        directory = request.directory if options.cache is not CacheMode.MEMORY else None
        storage = Storage(directory, options.codec, BlockCache(options.memory))
        read = LookupRead(
            columns=columns,
            where=request.where,
            buckets=request.buckets,
            follows_compactions=compactions,
            keeps_deletes=bool(sequence),
        )
        rules = ChangeRules(
            where=request.where,
            sequence=sequence,
            descending=chosen.sequence_order is SequenceOrder.DESCENDING,
            ignores_retracts=chosen.ignore_delete and not exact,
        )
        return FullCache(table, read, Layout(stored, join, primary, bool(sequence)), storage, rules)

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInputError(f"the lookup table of {self._table.name} is closed; create a new one")


def checked_request(
    table: Readable,
    on: Sequence[str],
    *,
    columns: Sequence[str] | None,
    where: str | Predicate | None,
    buckets: Iterable[int] | None,
    directory: str | None,
) -> LookupRequest:
    """Return what `Table.new_lookup` is asked for. Raises InvalidInputError."""
    row_type = table.schema.row_type
    names = checked_columns(tuple(on), row_type)
    if len(set(names)) != len(names):
        raise InvalidInputError(f"on={list(on)!r}: a column is named twice; name each once")
    chosen = frozenset(buckets) if buckets is not None else None
    if chosen is not None and table.options.bucket < 1:
        raise InvalidInputError(
            f"buckets={sorted(chosen)}: table {table.name} has no fixed buckets; leave them out"
        )
    return LookupRequest(
        on=names,
        columns=checked_columns(columns, row_type),
        where=parse_where(where, row_type) if isinstance(where, str) else where,
        buckets=chosen,
        directory=directory if directory is not None else tempfile.gettempdir(),
    )
