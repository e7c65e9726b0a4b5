"""Index files against what index manifests and data files say: vectors decode and delete rows that exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, LakeError, NotFoundError, UnavailableError
from lakecore.fs.file_io import FileIO
from lakecore.index.deletion_vectors import decode_vectors
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, HASH_INDEX, IndexFile
from lakecore.verify.fsck.findings import FindingKind, Findings

__all__ = ["IndexFileCheck"]

_HASH_BYTES = 4
Place = tuple[bytes, int, str]


@dataclass(slots=True)
class IndexFileCheck:
    """It reads each index file once. It keeps one file in memory, and a number per deletion vector."""

    file_io: FileIO
    findings: Findings
    _highest: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """The highest deleted position of each data file, -1 for none, by index file."""

    def check(
        self, placed: Sequence[tuple[IndexFile, str]], manifest: str, owner: str, live: ManifestEntries | None
    ) -> None:
        """Index files and their paths, all that `manifest` names. `live`: the data files of that state, where
        it is known. A missing file is found by listing. Raises UnavailableError only.
        """
        self._check_doubles([file for file, _ in placed], manifest, owner)
        for file, path in placed:
            if path not in self._highest:
                self._highest[path] = self._decode(file, path, owner)
        if live is not None:
            self._check_live(placed, owner, live)

    def _check_doubles(self, files: Iterable[IndexFile], manifest: str, owner: str) -> None:
        places: set[Place] = set()
        for file in files:
            for vector in file.deletions:
                place = (file.partition, file.bucket, vector.data_file)
                if place in places:
                    problem = f"it lists two deletion vectors of {vector.data_file} (needed by {owner})"
                    self.findings.add(FindingKind.INDEX_FILE, manifest, problem)
                places.add(place)

    def _decode(self, file: IndexFile, path: str, owner: str) -> Mapping[str, int]:
        try:
            return self._read(file, path)
        except (UnavailableError, NotFoundError) as err:
            if isinstance(err, UnavailableError):
                raise
        except LakeError as err:
            self.findings.failed(FindingKind.INDEX_FILE, path, err, owner)
        return {}

    def _read(self, file: IndexFile, path: str) -> Mapping[str, int]:
        if file.index_type not in (DELETION_VECTORS, HASH_INDEX):
            return {}
        data = self.file_io.read(path)
        count = len(data) // _HASH_BYTES if file.index_type == HASH_INDEX else len(file.deletions)
        if file.row_count != count:
            raise CorruptDataError(
                path, f"it holds {count} hashes or deletion vectors instead of {file.row_count}"
            )
        if file.index_type == HASH_INDEX:
            return {}
        places = {vector.data_file: vector for vector in file.deletions}
        vectors = decode_vectors(data, places, path)
        return {name: vector.max() if vector else -1 for name, vector in vectors.items()}

    def _check_live(self, placed: Sequence[tuple[IndexFile, str]], owner: str, live: ManifestEntries) -> None:
        marked = {(file.partition, file.bucket) for file, _ in placed if file.deletions}
        rows = _rows(live, marked)
        for file, path in placed:
            for name, highest in self._highest[path].items():
                count = rows.get((file.partition, file.bucket, name))
                if count is None:
                    problem = f"it deletes rows of {name}, which is not in its bucket (needed by {owner})"
                    self.findings.add(FindingKind.INDEX_FILE, path, problem)
                elif highest >= count:
                    problem = (
                        f"it deletes row {highest} of {name}, which has {count} rows (needed by {owner})"
                    )
                    self.findings.add(FindingKind.INDEX_FILE, path, problem)


def _rows(live: ManifestEntries, buckets: set[tuple[bytes, int]]) -> dict[Place, int]:
    """Return the row counts of the data files in some buckets."""
    if not buckets:
        return {}
    partitions = {partition for partition, _ in buckets}
    codes = [code for code, value in enumerate(live.partitions) if value in partitions]
    numbers = sorted({bucket for _, bucket in buckets})
    part = live.select(np.isin(live.partition, codes) & np.isin(live.bucket, numbers))
    places = zip(part.partition.tolist(), part.bucket.tolist(), part.names(), strict=True)
    return {
        (part.partitions[code], bucket, name.decode()): count
        for (code, bucket, name), count in zip(places, part.row_count.tolist(), strict=True)
    }
