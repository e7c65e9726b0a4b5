from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

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


@pytest.mark.parametrize("equal_hashes", [False, True])
def test_files_that_are_added_or_removed_twice_are_conflicts(
    equal_hashes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random commits, against the rule itself; with and without hashes that say nothing."""
    if equal_hashes:
        same = lambda entries: np.zeros(len(entries), np.uint64)  # noqa: E731
        monkeypatch.setattr("lakecore.metadata.manifest.live_entries.identity_hash", same)
    random = Random(3)
    for _ in range(300):
        files = [
            manifest_entry(data_file(name, level=level), bucket=bucket)
            for name in "ab"
            for level in (0, 1)
            for bucket in (0, 1)
        ]
        base = random.sample(files, random.randint(0, 6))
        delta = [
            replace(random.choice(files), kind=random.choice(list(EntryKind)))
            for _ in range(random.randint(0, 6))
        ]
        present, expected = {file.identity for file in base}, []
        for one in delta:
            is_add = one.kind is EntryKind.ADD
            if is_add == (one.identity in present):
                expected.append((one.bucket, one.file.file_name, is_add))
            present = present | {one.identity} if is_add else present - {one.identity}
        conflicts = find_conflicts(
            ManifestEntries.from_rows(base), ManifestEntries.from_rows(delta), CommitKind.OVERWRITE, None
        )
        assert [(one.bucket, one.file_name, "already" in one.reason) for one in conflicts] == expected
