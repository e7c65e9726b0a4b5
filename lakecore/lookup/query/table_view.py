"""This module has the files of a table as lookups see them, by partition and bucket. Pure.

A change makes another view, which shares the buckets that stay the same: a lookup that began with a view
answers from it to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.lookup.query.bucket_view import BucketRules, BucketView
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.scan.file_monitor import FilePlan

__all__ = ["Bucket", "TableView"]

Bucket = tuple[bytes, int]
"""This is a bucket: its serialised partition and its number."""


@dataclass(frozen=True, slots=True)
class TableView:
    """These are all buckets of a table at one snapshot."""

    rules: BucketRules
    partitions: Mapping[bytes, Mapping[int, BucketView]] = field(default_factory=dict)

    def buckets(self, partition: bytes) -> Mapping[int, BucketView]:
        """Return the buckets of a partition by their numbers."""
        return self.partitions.get(partition, {})

    def find(self, place: Bucket) -> BucketView | None:
        """Return one bucket; None if it has no files."""
        return self.buckets(place[0]).get(place[1])

    def file_names(self) -> Iterator[tuple[Bucket, str]]:
        """Yield the names of all files with their buckets."""
        for partition, buckets in self.partitions.items():
            for bucket, view in buckets.items():
                for name in view.files:
                    yield (partition, bucket), name

    def applied(self, plan: FilePlan) -> TableView:
        """Return the view after a plan of the file monitor. Rows that have no bucket yet are left out."""
        view = TableView(self.rules) if plan.full else self
        changed = {
            (one.partition, one.bucket): view._bucket((one.partition, one.bucket)).changed(
                one.before, one.after, one.total_buckets, one.deletions
            )
            for one in plan.buckets
            if one.bucket >= 0
        }
        return view._with(changed)

    def changed(
        self,
        place: Bucket,
        before: Sequence[DataFile],
        after: Sequence[DataFile],
        total_buckets: int | None,
        deletions: Mapping[str, DeletionFile] | None,
    ) -> TableView:
        """Return the view after a change of one bucket. Raises InvalidInputError for files before that it
        does not have.
        """
        if before and self.find(place) is None:
            raise InvalidInputError(
                f"bucket {place[1]}: its first files must come without files before; give all files of a "
                "snapshot first, then the changes of each"
            )
        view = self._bucket(place).changed(before, after, total_buckets, deletions)
        return self._with({place: view})

    def _bucket(self, place: Bucket) -> BucketView:
        return self.find(place) or BucketView(self.rules, {}, 0, {})

    def _with(self, changed: Mapping[Bucket, BucketView]) -> TableView:
        """Return the view with other buckets; those without files are left out."""
        partitions = dict(self.partitions)
        for partition in {place[0] for place in changed}:
            buckets = dict(self.buckets(partition))
            buckets.update({place[1]: view for place, view in changed.items() if place[0] == partition})
            partitions[partition] = {number: view for number, view in buckets.items() if view.files}
        return TableView(self.rules, {name: buckets for name, buckets in partitions.items() if buckets})
