"""This module has the buckets of a replay: their files, what a merge makes of them, and their sorted runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace

from lakecore.compact.engine.strategy import Strategy
from lakecore.compact.engine.work import Place
from lakecore.compact.kinds.append.plan import JoinRequest, plan_joins
from lakecore.compact.kinds.primary_key.plan import PickRequest, plan_bucket
from lakecore.data_class import dataclass
from lakecore.jobs.what_if.merge_sizes import MergeRatio, MergeSizes
from lakecore.metadata.manifest.data_file import DataFile, EntryKind, FileSource, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.scan.change_scanner import Deletions

__all__ = ["Bucket", "JoinRules", "ReplayPick", "join_picks", "tree_picks"]

_VIRTUAL = "replayed-"


@dataclass(slots=True)
class Bucket:
    """These are the files of a bucket, in the order of their manifests."""

    place: Place
    files: list[DataFile] = field(default_factory=list)

    def runs(self, *, keyed: bool) -> int:
        """Return the sorted runs that a reader merges; without keys the number of files."""
        if not keyed:
            return len(self.files)
        fresh = sum(file.level == 0 for file in self.files)
        return fresh + len({file.level for file in self.files if file.level})

    def apply(self, entries: Iterable[ManifestEntry]) -> None:
        """Add and remove files."""
        removed = {_key(one.file) for one in entries if one.kind is EntryKind.DELETE}
        self.files = [file for file in self.files if _key(file) not in removed]
        self.files += [one.file for one in entries if one.kind is EntryKind.ADD]

    def is_like(self, other: Bucket) -> bool:
        """Return whether both have the same files on the same levels."""
        return {_key(file) for file in self.files} == {_key(file) for file in other.files}

    def put_in_place(self, pick: ReplayPick) -> None:
        """Replace the files of a pick by what it makes."""
        removed = {_key(file) for file in (*pick.rewritten, *pick.moved)}
        self.files = [file for file in self.files if _key(file) not in removed]
        self.files += [*(replace(file, level=pick.output_level) for file in pick.moved), *pick.written]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPick:
    """It is a pick of a replay. The sizes of the `written` files are estimates."""

    place: Place
    reason: str
    output_level: int
    rewritten: tuple[DataFile, ...]
    moved: tuple[DataFile, ...]
    written: tuple[DataFile, ...]
    announced: tuple[DataFile, ...] = ()
    """The rows of these moved files are read."""
    exact: bool = False
    """It tells whether the bucket was as it really was, so that a compaction would have picked the same."""

    @property
    def read_bytes(self) -> int:
        return sum(file.file_size for file in (*self.rewritten, *self.announced))

    @property
    def written_bytes(self) -> int:
        return sum(file.file_size for file in self.written)


def tree_picks(bucket: Bucket, request: PickRequest, sizes: MergeSizes, number: int) -> list[ReplayPick]:
    """Return the pick of a bucket with keys, if there is one. `number` makes names of files fresh."""
    pick = plan_bucket(bucket.place, bucket.files, request)
    if pick is None:
        return []
    written = []
    for place, group in enumerate(pick.work.rewrites):
        inputs = [file for section in group for file in section.files]
        ratio = sizes.ratio(bucket.place, inputs, request.now_ms)
        one = _merge_file(inputs, ratio, f"{_VIRTUAL}{number}-{place}", request.now_ms)
        deletes = 0 if pick.drop_deletes else one.delete_row_count
        low = min((file.min_key for file in inputs), key=request.key_of)
        high = max((file.max_key for file in inputs), key=request.key_of)
        written.append(
            replace(one, level=pick.output_level, delete_row_count=deletes, min_key=low, max_key=high)
        )
    return [
        ReplayPick(
            place=bucket.place,
            reason=pick.reason,
            output_level=pick.output_level,
            rewritten=tuple(f for group in pick.work.rewrites for part in group for f in part.files),
            moved=pick.work.upgrades,
            announced=pick.work.announced,
            written=tuple(written),
        )
    ]


@dataclass(frozen=True, slots=True)
class JoinRules:
    """These are the rules for files of a table without keys, and its deletion vectors."""

    request: JoinRequest
    deletions: Deletions
    now_ms: int


def join_picks(bucket: Bucket, rules: JoinRules, sizes: MergeSizes, number: int) -> list[ReplayPick]:
    """Return the picks of a bucket without keys."""
    rows = [
        ManifestEntry(
            kind=EntryKind.ADD,
            partition=bucket.place.partition,
            bucket=bucket.place.bucket,
            total_buckets=bucket.place.total_buckets,
            file=file,
        )
        for file in bucket.files
    ]
    entries, target = ManifestEntries.from_rows(rows), rules.request.policy.target_file_size
    picks = []
    for place, pick in enumerate(plan_joins(entries, rules.request, rules.deletions)):
        ratio = sizes.ratio(bucket.place, pick.files, rules.now_ms)
        whole = _merge_file(pick.files, ratio, f"{_VIRTUAL}{number}-{place}", rules.now_ms)
        picks.append(
            ReplayPick(
                place=bucket.place,
                reason="full" if rules.request.strategy is Strategy.FULL else "small files",
                output_level=0,
                rewritten=pick.files,
                moved=(),
                written=tuple(_cut(whole, -(-whole.file_size // target))),
            )
        )
    return picks


def _merge_file(files: Collection[DataFile], ratio: MergeRatio, name: str, now_ms: int) -> DataFile:
    """Return a file that stands for the rows of these."""
    deletes = [file.delete_row_count for file in files]
    return replace(
        next(iter(files)),
        file_name=name,
        file_size=max(1, round(sum(file.file_size for file in files) * ratio.bytes)),
        row_count=max(1, round(sum(file.row_count for file in files) * ratio.rows)),
        min_sequence_number=min(file.min_sequence_number for file in files),
        max_sequence_number=max(file.max_sequence_number for file in files),
        delete_row_count=None if None in deletes else sum(count or 0 for count in deletes),
        creation_time=now_ms,
        file_source=FileSource.COMPACT,
        extra_files=(),
        embedded_index=None,
        external_path=None,
        schema_id=max(file.schema_id for file in files),
    )


def _cut(file: DataFile, count: int) -> Sequence[DataFile]:
    """Return equal parts of a file."""
    size, rows = file.file_size // count, file.row_count // count
    return [
        replace(file, file_name=f"{file.file_name}-{part}", file_size=max(1, size), row_count=max(1, rows))
        for part in range(count)
    ]


def _key(file: DataFile) -> tuple[str, int]:
    return file.file_name, file.level
