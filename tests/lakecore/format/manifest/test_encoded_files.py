"""Files that stay records equal those made at once, are small when they are pickled, and name damage."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from lakecore.errors import CorruptDataError
from lakecore.format.manifest import encoded_files
from lakecore.format.manifest import manifests as codec
from lakecore.format.manifest.encoded_files import EncodedFiles, file_slices
from lakecore.format.manifest.manifests import decode_manifest, decode_manifests, encode_manifest
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from tests.lakecore.format.manifest.test_manifests import _avro, _records, _schema, entry, golden_manifests


@pytest.fixture(autouse=True)
def in_lock_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a single entry stays in its block."""
    monkeypatch.setattr(codec, "MANY_ENTRIES", 0)


def slices(entries: ManifestEntries, *bounds: int) -> list[EncodedFiles]:
    found = list(file_slices(entries, [np.arange(*pair) for pair in pairwise(bounds)], 4))
    assert all(isinstance(files, EncodedFiles) for files in found)
    return [files for files in found if isinstance(files, EncodedFiles)]


def test_slices_of_golden_manifests_equal_their_files() -> None:
    """Of Java 0.8 to 2.0, whose manifests have different columns, all together and in any order."""
    avro = [(data, path) for data, path in golden_manifests("manifest") if data[:4] == b"Obj\x01"]
    entries = decode_manifests(avro)
    order = np.random.default_rng(7).permutation(len(entries))
    mixed = entries.select(order)
    assert len({source.schema_text for source in entries.sources}) > 1  # type: ignore[attr-defined]
    bounds = [0, 1, 2, 10, 40, len(entries)]
    for files, (low, high) in zip(slices(mixed, *bounds), pairwise(bounds), strict=True):
        wanted = mixed.files(slice(low, high))
        again = pickle.loads(pickle.dumps(files))
        assert len(files) == len(again) == high - low
        assert files.size == again.size == sum(file.file_size for file in wanted)
        assert files.row_count == again.row_count == sum(file.row_count for file in wanted)
        assert files.files == again.files == tuple(wanted)
        assert files == again
        assert hash(files) == hash(tuple(wanted))
        assert files[-1] == wanted[-1]
        assert list(files[1:3]) == wanted[1:3]


def test_rows_stay_rows() -> None:
    rows = [entry(number) for number in range(5)]
    found = list(file_slices(ManifestEntries.from_rows(rows), [np.array([3, 1]), np.array([0])], 4))
    assert found == [[rows[3].file, rows[1].file], [rows[0].file]]
    both = ManifestEntries.concat([ManifestEntries.from_rows(rows[:1]), decode_manifest(_manifest(2), "m")])
    assert [list(files) for files in file_slices(both, [np.arange(3)], 4)] == [both.files()]


def test_no_file_is_made_before_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def count(record: Any) -> DataFile:
        made.append(record)
        return decode(record)

    decode = encoded_files.file_from_record
    monkeypatch.setattr(encoded_files, "file_from_record", count)
    files = pickle.loads(pickle.dumps(slices(decode_manifest(_manifest(50), "m"), 0, 30, 50)))[1]
    assert (len(files), files.size > 0, files.row_count > 0, made) == (20, True, True, [])
    assert "EncodedFiles(20 files" in repr(files)
    assert made == []
    assert files[0].file_name == "data-30-ü.parquet"
    assert len(made) == len(files)
    assert len(list(files)) == len(made)


def test_a_pickle_is_smaller_than_that_of_objects() -> None:
    entries = decode_manifest(_manifest(2000), "m")
    found = slices(entries, *range(0, 2001, 10))
    whole = len(pickle.dumps([entries.files(slice(at, at + 10)) for at in range(0, 2000, 10)]))
    assert len(pickle.dumps(found)) * 4 < whole


def test_values_that_no_file_can_have_are_refused() -> None:
    records = _records([entry(3), entry(4)])
    records[1]["_FILE"]["_EXTRA_FILES"] = ["../x"]
    (files,) = slices(decode_manifest(_avro(records, _schema()), "dir/manifest/m"), 0, 2)
    with pytest.raises(
        CorruptDataError, match=r"dir/manifest: contains a record that cannot be decoded: .*\.\./x"
    ):
        pickle.loads(pickle.dumps(files))[0]


def _manifest(count: int) -> bytes:
    return encode_manifest([entry(number) for number in range(count)])
