from __future__ import annotations

import pickle
from pathlib import Path

from lakecore.commit.conflict import describe, find_conflicts, find_missing
from lakecore.errors import CommitConflictError
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import EntryKind, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import CommitKind
from lakecore.row.binary_row import encode_row
from tests.support import datadriven
from tests.support.builders import data_file, manifest_entry, table_schema
from tests.support.typed_values import row_of

PARTITION = row_of("INT")
TESTDATA = Path(__file__).parent / "testdata"


def entry(words: list[str]) -> ManifestEntry:
    kind, name, place, level, keys = words
    bucket, total = map(int, place.split("/"))
    low, high = map(int, keys.split("-"))
    return manifest_entry(
        data_file(name, level=int(level), keys=(low, high)),
        kind=EntryKind.ADD if kind == "+" else EntryKind.DELETE,
        bucket=bucket,
        total_buckets=total,
    )


def run(case: datadriven.Case) -> str:
    lines = [line.split() for line in case.input]
    base, delta = (
        ManifestEntries.from_rows([entry(line[1:]) for line in lines if line[0] == side])
        for side in ("base", "delta")
    )
    kind = CommitKind(case.args.get("kind", "APPEND"))
    return describe(find_conflicts(base, delta, kind, key_order(table_schema().key_type))) or "fits"


def test_conflicts(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "conflict.txt", run, rewrite)


def test_tables_without_keys_have_no_ranges() -> None:
    delta = ManifestEntries.from_rows([manifest_entry(data_file(name, level=1)) for name in "ab"])
    assert find_conflicts(ManifestEntries.empty(), delta, CommitKind.COMPACT, None) == ()


def test_the_error_keeps_its_files_through_pickling() -> None:
    error = CommitConflictError("does not fit", ((b"p", 3, "f"),))
    again = pickle.loads(pickle.dumps(error))
    assert again.files == ((b"p", 3, "f"),)
    assert str(again) == "does not fit"


def test_files_that_were_consulted_are_still_there_whatever_partitions_were_read_with_them() -> None:
    """Codes of partitions differ between the base and what a plan looked at."""
    one, other = encode_row([1], PARTITION), encode_row([2], PARTITION)
    base = [manifest_entry(data_file(name), partition=part) for part in (one, other) for name in "ab"]
    required = ManifestEntries.from_rows(base[2:3])
    assert find_missing(ManifestEntries.from_rows(base), required) == ()
    for left in (base[:2], base[3:], []):
        missing = find_missing(ManifestEntries.from_rows(left), required)
        assert [(conflict.partition, conflict.file_name) for conflict in missing] == [(other, "a")]
    assert find_missing(ManifestEntries.from_rows(base), ManifestEntries.empty()) == ()


def test_a_large_bucket_is_checked_quickly() -> None:
    files = [manifest_entry(data_file(f"f{i}", level=5, keys=(2 * i, 2 * i + 1))) for i in range(20_000)]
    base = ManifestEntries.from_rows(files)
    delta = ManifestEntries.from_rows([manifest_entry(files[0].file, kind=EntryKind.DELETE)])
    assert find_conflicts(base, delta, CommitKind.COMPACT, key_order(table_schema().key_type)) == ()
