"""Lost and damaged hash indexes of dynamic buckets are made again from the keys there are.

A new index has the hashes of the keys in the bucket's files. Keys that were deleted and compacted away are no
longer in it, which is right: such a key is in no bucket, and may come into any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.maintain.repair.context import Action, ActionResult, Parameters, RepairContext
from lakecore.maintain.repair.plan import ActionPreview
from lakecore.maintain.target import Target
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.key_value import key_names
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import HASH_INDEX, IndexFile
from lakecore.metadata.manifest.live_entries import live_entries
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.read.context import ReadContext
from lakecore.read.file.file_reader import read_file
from lakecore.row.binary_row import decode_row
from lakecore.row.hashing import hash_rows
from lakecore.row.partition_path import partition_text
from lakecore.store.indexes import IndexStore
from lakecore.verify.fsck.references import bucket_directory

__all__ = ["HASHES"]

Bucket = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class _MissingIndexes:
    """What has no usable hash index at `snapshot`: per bucket its index file, None where none is named."""

    snapshot: int
    files: ManifestEntries
    buckets: Mapping[Bucket, IndexFile | None]


def _find(target: Target, reported_paths: frozenset[str]) -> _MissingIndexes | None:
    """Find the buckets to repair. The cost is a listing of `index/` (or a look at each index file), and the
    entries of all data files.

    `reported_paths`: paths of index files that do not hold what they should, whatever their size.
    """
    latest = target.snapshots.latest()
    if latest is None or TableOptions.from_schema(target.schema).bucket_mode is not BucketMode.HASH_DYNAMIC:
        return None
    index_files = target.manifests.read_index(latest.index_manifest)
    hashed = {(file.partition, file.bucket): file for file in index_files if file.index_type == HASH_INDEX}
    files = live_entries(target.manifests.read(target.manifests.data_manifests(latest)))
    store = IndexStore(target.file_io, target.paths, target.schema)
    listed = {status.path: status.size for status in target.file_io.list(target.paths.index_dir)}

    def damaged(file: IndexFile) -> bool:
        path = store.path(file)
        file_status = target.file_io.stat(path) if path not in listed else None
        size = listed.get(path, None if file_status is None else file_status.size)
        return size != file.file_size or size != 4 * file.row_count or path in reported_paths

    bad: dict[Bucket, IndexFile | None] = {bucket: file for bucket, file in hashed.items() if damaged(file)}
    return _MissingIndexes(latest.id, files, {**bad, **dict.fromkeys(_filled_buckets(files) - hashed.keys())})


def _filled_buckets(files: ManifestEntries) -> frozenset[Bucket]:
    """Return the real buckets that have files."""
    if not len(files):
        return frozenset()
    pairs = np.unique(np.stack((files.partition.astype(np.int64), files.bucket.astype(np.int64))), axis=1)
    return frozenset((files.partitions[code], bucket) for code, bucket in pairs.T.tolist() if bucket >= 0)


def _look(context: RepairContext, branch: str, parameters: Parameters) -> ActionPreview | None:
    target = context.at(branch)
    damage = _find(target, frozenset(parameters.get("damaged", ())))
    if damage is None or not damage.buckets:
        return None
    store = IndexStore(target.file_io, target.paths, target.schema)
    directory = bucket_directory(target.paths, target.schema)
    paths = {store.path(file) for file in damage.buckets.values() if file is not None}
    return ActionPreview(
        why=f"snapshot {damage.snapshot} has buckets without a usable hash index, which cannot be written to",
        changes=tuple(sorted(_line(target, bucket, file) for bucket, file in damage.buckets.items())),
        loses="",
        paths=frozenset(paths | {directory(*bucket) for bucket in damage.buckets}),
    )


def _line(target: Target, bucket: Bucket, file: IndexFile | None) -> str:
    partition_type = target.schema.partition_type
    name = partition_text(decode_row(bucket[0], partition_type, target.paths.table_path), partition_type)
    before = "no hash index" if file is None else file.file_name
    return f"{name + ' ' if name else ''}bucket {bucket[1]}: {before} -> the keys of its files"


def _rebuild(
    context: RepairContext, branch: str, parameters: Parameters, paths: frozenset[str]
) -> ActionResult:
    """Rebuild the indexes in a COMPACT: no row changes. It needs memory for the hashes of one bucket, 4 bytes
    per row of it.

    Raises CommitConflictError when others wrote to a bucket meanwhile; then nothing is left behind.
    """
    target = context.at(branch)
    damage = _find(target, frozenset(parameters.get("damaged", ())))
    if damage is None:
        return ActionResult()
    store = IndexStore(target.file_io, target.paths, target.schema, target.clock)
    messages: list[CommitMessage] = []
    try:
        for bucket, old in damage.buckets.items():
            if _line(target, bucket, old) in paths:
                messages.append(_message(target, store, damage.files, bucket, old))
    except BaseException:
        _discard(store, messages)
        raise
    return context.commit(target, messages, partial(_discard, store, messages))


def _message(
    target: Target, store: IndexStore, files: ManifestEntries, bucket: Bucket, old: IndexFile | None
) -> CommitMessage:
    hashes = _hashes(target, files, bucket)
    return CommitMessage(
        partition=bucket[0],
        bucket=bucket[1],
        total_buckets=-1,
        compact_new_index_files=() if hashes is None else (store.write_hashes(*bucket, hashes),),
        compact_deleted_index_files=() if old is None else (old,),
    )


def _discard(store: IndexStore, messages: Sequence[CommitMessage]) -> None:
    store.discard([file for message in messages for file in message.compact_new_index_files])


def _hashes(target: Target, files: ManifestEntries, bucket: Bucket) -> npt.NDArray[np.int32] | None:
    """Return the hashes of all keys in the files of a bucket, each once; None without files.

    Raises CorruptDataError, NotFoundError: data files come first.
    """
    if bucket[0] not in files.partitions:
        return None
    code = files.partitions.index(bucket[0])
    inside = files.select((files.partition == code) & (files.bucket == bucket[1]))
    if not len(inside):
        return None
    reading = ReadContext(target.file_io, target.paths, target.schema, target.schemas)
    directory, names = reading.bucket_dir(*bucket), key_names(target.schema)
    hashes = np.zeros(0, np.int32)
    for file in inside.files():
        parts = [
            hash_rows([batch.column(name) for name in names], target.schema.key_type)
            for batch in read_file(reading, directory, file, names)
        ]
        hashes = np.union1d(hashes, np.concatenate([*parts, np.zeros(0, np.int32)]))
    return hashes.astype(np.int32)


HASHES = Action(look=_look, do=_rebuild)
