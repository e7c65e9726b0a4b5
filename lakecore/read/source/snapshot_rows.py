"""This module reads the rows of a table at one snapshot, as a source for scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.metadata.manifest.bucket_counts import GROUP_FILES
from lakecore.metadata.snapshot import Snapshot
from lakecore.predicate.tree import Predicate
from lakecore.read.context import ReadContext
from lakecore.read.split.split_cuts import SplitShare, cut_split, read_share
from lakecore.read.split.split_reader import ReadRequest, indexed_split, read_split, split_shares
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.scan.scanner import Scanner, SkippedFiles
from lakecore.scan.split import Split, SplitPlan
from lakecore.types.datatypes import RowType

__all__ = ["SnapshotRows"]


@dataclass(frozen=True)
class SnapshotRows:
    """These are merged rows of `snapshot` with the columns of the context; there are no rows where there is
    no snapshot.
    """

    scanner: Scanner
    context: ReadContext
    snapshot: Snapshot | None
    created_ms: int | None = None
    """Only rows of files created at or after this time, in milliseconds, are read."""
    where: ScanFilter = EVERYTHING
    """These are the buckets and levels to read."""
    retracts: bool = False
    """Include keys whose latest row retracts; kinds are then those of the rows that won the merge."""
    with_level_0: bool = False
    """Include rows that a batch read does not show before they are compacted."""

    @property
    def description(self) -> str:
        at = "before its first snapshot" if self.snapshot is None else f"at snapshot {self.snapshot.id}"
        return f"{self.scanner.table} {at}"

    @property
    def row_type(self) -> RowType:
        return self.context.row_type

    def plan(self, where: Predicate | None) -> SplitPlan:
        """Return the splits to read. For the errors see `Scanner.plan`."""
        return self.scanner.plan(
            self.snapshot,
            self.context.schema,
            self.where,
            where,
            created_ms=self.created_ms,
            with_level_0=self.with_level_0,
        )

    def groups(
        self, where: Predicate | None, most: int = GROUP_FILES, undivided: int = GROUP_FILES
    ) -> Iterator[ScanFilter]:
        """Yield filters that take the place of `self.where`, and together select the same rows; see
        `Scanner.groups`.
        """
        if self.snapshot is None:
            yield self.where
        else:
            yield from self.scanner.groups(self.snapshot, self.where, where, most=most, undivided=undivided)

    def plans(self, where: Predicate | None, most: int = GROUP_FILES) -> Iterator[SplitPlan]:
        """Yield the splits to read in groups of at most some `most` files. The manifest lists are read once.
        It raises as `plan` does.
        """
        rows = self
        if self.snapshot is not None:
            rows = replace(self, scanner=self.scanner.with_lists(self.snapshot))
        for group in rows.groups(where, most, most):
            yield replace(rows, where=group).plan(where)

    def explain(self, where: Predicate | None) -> tuple[SplitPlan, tuple[SkippedFiles, ...]]:
        """Return the plan and what it leaves out, see `Scanner.explain`."""
        if self.snapshot is None:
            return self.plan(where), ()
        return self.scanner.explain(
            self.snapshot,
            self.context.schema,
            self.where,
            where,
            created_ms=self.created_ms,
            with_level_0=self.with_level_0,
        )

    def read(
        self, part: Split, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a split, see `read_split`."""
        split = self._merging(part)
        return read_split(self.context, split, self._request(columns, where, kinds=kinds))

    def indexed(
        self, part: Split, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Callable[[], Iterator[pa.RecordBatch]] | None:
        """Return a read of the same rows, with file indexes evaluated now; see `indexed_split`."""
        split = self._merging(part)
        return indexed_split(self.context, split, self._request(columns, where, kinds=kinds))

    def shares(
        self, part: Split, count: int, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> tuple[Callable[[], Iterator[pa.RecordBatch]], ...]:
        """Return several reads that together yield the same rows, see `split_shares`."""
        split = self._merging(part)
        return split_shares(self.context, split, count, self._request(columns, where, kinds=kinds))

    def cut(self, part: Split, target_size: int, where: Predicate | None) -> tuple[SplitShare, ...]:
        """Cut a split into shares of about `target_size` bytes for other processes, see `cut_split`."""
        return cut_split(self.context, self._merging(part), target_size, where)

    def read_share(
        self, share: SplitShare, columns: Sequence[str], where: Predicate | None, *, kinds: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read a share of a split, see `read_share`."""
        return read_share(self.context, share, self._request(columns, where, kinds=kinds))

    def _request(self, columns: Sequence[str], where: Predicate | None, *, kinds: bool) -> ReadRequest:
        return ReadRequest(columns, where, kinds=kinds, retracts=self.retracts)

    def _merging(self, part: Split) -> Split:
        return replace(part, raw_convertible=False) if self.retracts and self.context.keyed else part
