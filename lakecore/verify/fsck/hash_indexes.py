"""The hash indexes of dynamic buckets at one snapshot: every bucket with rows has one, with all its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError, UnavailableError
from lakecore.fs.file_io import FileIO
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import HASH_INDEX, IndexFile
from lakecore.metadata.options import BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.row.hashing import hash_rows
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.types.datatypes import RowType
from lakecore.verify.digest.columns import read_covered
from lakecore.verify.digest.shape import ProofMode, shape_of
from lakecore.verify.fsck.findings import FindingKind, Findings

__all__ = ["HashIndexCheck"]

Bucket = tuple[bytes, int]


@dataclass(frozen=True)
class HashIndexCheck:
    """It checks the hash indexes of one branch. `schema` is the latest of the branch; `directory` returns
    the directory of a bucket.
    """

    file_io: FileIO
    paths: TablePaths
    schema: TableSchema
    schemas: SchemaStore
    directory: Callable[[bytes, int], str]
    findings: Findings

    def check(
        self, placed: Sequence[tuple[IndexFile, str]], live: ManifestEntries, owner: str, *, read_data: bool
    ) -> None:
        """Index files with their paths, and all live files, of one snapshot.

        `read_data`: read the keys of all files; memory is the hashes of one bucket and a batch. Raises
        UnavailableError only.
        """
        if TableOptions.from_schema(self.schema).bucket_mode is not BucketMode.HASH_DYNAMIC:
            return
        hashed = {(f.partition, f.bucket): (f, path) for f, path in placed if f.index_type == HASH_INDEX}
        for bucket, rows in _by_bucket(live).items():
            if bucket not in hashed:
                problem = (
                    "the bucket has rows but no hash index, so writers may put their keys into "
                    f"another bucket (needed by {owner})"
                )
                self.findings.add(FindingKind.INDEX_FILE, self.directory(*bucket), problem)
            elif read_data:
                file, path = hashed[bucket]
                try:
                    self._check_bucket(file, path, live.select(rows), owner)
                except UnavailableError:
                    raise
                except LakeError:
                    continue  # found where the file itself is checked

    def _check_bucket(self, file: IndexFile, path: str, live: ManifestEntries, owner: str) -> None:
        data = self.file_io.read(path)
        if len(data) != file.row_count * 4:
            raise CorruptDataError(path, "its size is not the recorded one")
        index_hashes = np.sort(np.frombuffer(data, ">i4").astype(np.int32))
        unknown = sum(int((~np.isin(hashes, index_hashes)).sum()) for hashes in self._hashes(live))
        if unknown:
            problem = f"it lacks the keys of {unknown} rows of its bucket (needed by {owner})"
            self.findings.add(FindingKind.INDEX_FILE, path, problem)

    def _hashes(self, live: ManifestEntries) -> Iterator[npt.NDArray[np.int32]]:
        options = TableOptions.from_schema(self.schema)
        shape = shape_of(self.schema, options, ProofMode.KEYS)
        key_type = RowType(shape.key)
        for entry in live.rows():
            path = self.paths.data_file(self.directory(entry.partition, entry.bucket), entry.file)
            schema = self.schemas.load(entry.file.schema_id)
            for columns in read_covered(self.file_io, path, shape, schema):
                yield hash_rows(columns[: len(shape.key)], key_type)


def _by_bucket(live: ManifestEntries) -> Mapping[Bucket, npt.NDArray[np.int64]]:
    """Return the positions of the files of each real bucket."""
    keys = live.partition.astype(np.int64) << 32 | (live.bucket.astype(np.int64) & 0xFFFFFFFF)
    real = np.flatnonzero(live.bucket >= 0)
    order = real[np.argsort(keys[real], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(keys[order])) + 1) if len(order) else []
    return {(live.partition_of(int(rows[0])), int(live.bucket[rows[0]])): rows for rows in groups}
