"""Plans made from columns of entries equal those of a plain rule that looks at one file after the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from lakecore.format.manifest import manifests as codec
from lakecore.format.manifest.manifests import decode_manifest, encode_manifest
from lakecore.lsm.section_columns import section_columns
from lakecore.lsm.sections import sections
from lakecore.metadata.key_numbers import key_numbers
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.byte_words import ByteWords
from lakecore.metadata.manifest.data_file import EMPTY_ROW, DataFile, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.row.binary_row import encode_row
from lakecore.scan import plan as planner
from lakecore.scan.plan import SplitPolicy, plan_splits
from lakecore.types.datatypes import RowType
from tests.support.builders import data_file, manifest_entry
from tests.support.typed_values import row_of

POLICY = SplitPolicy(target_size=100, open_file_cost=10)
PARTITIONS = (EMPTY_ROW, EMPTY_ROW[:-1] + b"\1", EMPTY_ROW[:-1] + b"\2")
TEXTS = (
    "",
    "a",
    "a\0",
    "ab",
    "aaaaaaa",
    "aaaaaaab",
    "aaaaaaaa",
    "ä",
    "z" * 40,
    "z" * 39 + "y",
    "\U0001f600",
    "\uffff",
)

VALUES: dict[str, Callable[[random.Random], Any]] = {
    "BIGINT": lambda draw: draw.choice([draw.randrange(40), -(1 << 63), (1 << 63) - 1, -1]),
    "INT": lambda draw: draw.randrange(-20, 20),
    "SMALLINT": lambda draw: draw.randrange(-20, 20),
    "TINYINT": lambda draw: draw.randrange(-128, 128),
    "BOOLEAN": lambda draw: draw.random() < 0.5,
    "DATE": lambda draw: draw.randrange(-5, 30),
    "TIME(3)": lambda draw: draw.randrange(30),
    "FLOAT": lambda draw: draw.choice([0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), -float("inf"), 1e-40]),
    "DOUBLE": lambda draw: draw.choice([0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), -float("inf"), 1e-310]),
    "DECIMAL(9, 2)": lambda draw: Decimal(draw.randrange(-20, 20)) / 4,
    "DECIMAL(38, 10)": lambda draw: Decimal(draw.randrange(-20, 20)) / 4,
    "TIMESTAMP(3)": lambda draw: draw.randrange(-9, 9) * 1_000_000,
    "TIMESTAMP(9)": lambda draw: draw.randrange(-9, 9) * 500_001,
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": lambda draw: draw.randrange(-9, 9) * 1000,
    "STRING": lambda draw: draw.choice(TEXTS),
    "CHAR(40)": lambda draw: draw.choice(TEXTS),
    "BYTES": lambda draw: bytes(draw.choices((0, 1, 127, 128, 255), k=draw.randrange(12))),
}  # fmt: skip
KEYS = [
    *((kind,) for kind in VALUES),
    ("STRING", "INT"),
    ("INT", "INT", "DOUBLE"),
    ("DATE", "STRING", "STRING"),
]


def key_values(draw: random.Random, kinds: Sequence[str]) -> tuple[Any, ...]:
    return tuple(VALUES[kind](draw) for kind in kinds)


def random_rows(seed: int, kinds: Sequence[str], count: int) -> tuple[list[ManifestEntry], RowType]:
    """Files in a few buckets whose key ranges touch, repeat, nest and stand apart."""
    draw, key_type = random.Random(seed), row_of(*(f"{kind} NOT NULL" for kind in kinds))
    order = key_order(key_type)
    levels = draw.choice([(0, 0, 5), (5,), (4, 5), (0, 1, 2, 3, 4, 5)])
    wide = draw.random() < 0.5
    rows = []
    for number in range(count):
        first = encode_row(key_values(draw, kinds), key_type)
        second = encode_row(key_values(draw, kinds), key_type) if wide or draw.random() < 0.3 else first
        low, high = sorted((first, second), key=order)
        size = draw.choice([1, 9, 10, 20, 60, 99, 100, 101, 300])
        made = data_file(f"f{number}", level=draw.choice(levels), size=size, sequence=(number, number))
        deletes = draw.choice([0, 0, 0, 0, 0, 1, None])
        made = replace(made, min_key=low, max_key=high, delete_row_count=deletes)
        rows.append(
            manifest_entry(made, partition=draw.choice(PARTITIONS), bucket=draw.randrange(3), total_buckets=3)
        )
    return rows, key_type


# --- the judge: the rules of the format, one file after the other


def judged(
    rows: Sequence[ManifestEntry], key_type: RowType, *, keys_unique: bool, unordered: bool
) -> Iterator[tuple[bytes, int, list[str], bool]]:
    buckets: dict[tuple[bytes, int], list[DataFile]] = {}
    for row in rows:
        buckets.setdefault((row.partition, row.bucket), []).append(row.file)
    for (partition, bucket), files in buckets.items():
        for pack, raw in bucket_packs(files, key_type, keys_unique=keys_unique, unordered=unordered):
            yield partition, bucket, [file.file_name for file in pack], raw


def bucket_packs(
    files: list[DataFile], key_type: RowType, *, keys_unique: bool, unordered: bool
) -> Iterator[tuple[list[DataFile], bool]]:
    clean = all(file.delete_row_count == 0 for file in files)
    one_level = len({file.level for file in files}) == 1
    disjoint = (one_level or keys_unique) and all(file.level > 0 for file in files) and clean
    if disjoint or len(files) == 1 or unordered:
        for pack in packed([[file] for file in files]):
            first = pack if unordered else pack[:1]
            yield pack, disjoint or all(file.delete_row_count == 0 for file in first)
    elif sum(max(file.file_size, POLICY.open_file_cost) for file in files) <= POLICY.target_size:
        yield files, False
    else:
        for pack in packed([list(section.files) for section in sections(files, key_order(key_type))]):
            yield pack, len(pack) == 1 and pack[0].delete_row_count == 0


def packed(groups: list[list[DataFile]]) -> Iterator[list[DataFile]]:
    pack: list[DataFile] = []
    total = 0
    for group in groups:
        size = max(sum(file.file_size for file in group), POLICY.open_file_cost)
        if pack and total + size > POLICY.target_size:
            yield pack
            pack, total = [], 0
        pack, total = [*pack, *group], total + size
    if pack:
        yield pack


def planned(
    entries: ManifestEntries, key_type: RowType, **flags: bool
) -> list[tuple[bytes, int, list[str], bool]]:
    found = plan_splits(entries, POLICY, key_type, **flags)
    return [
        (split.partition, split.bucket, [file.file_name for file in split.files], split.raw_convertible)
        for split in found
    ]


@pytest.mark.parametrize("kinds", KEYS, ids=" ".join)
@pytest.mark.parametrize("stored", [False, True], ids=["rows", "blocks"])
def test_plans_equal_those_of_the_plain_rule(
    kinds: tuple[str, ...], stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "MANY_ENTRIES", 0)
    for seed in range(8):
        rows, key_type = random_rows(seed, kinds, random.Random(seed).randrange(1, 60))
        entries = ManifestEntries.from_rows(rows)
        entries = decode_manifest(encode_manifest(rows), "m") if stored else entries
        for unique, unordered in ((False, False), (True, False), (False, True)):
            flags = {"keys_unique": unique, "unordered": unordered}
            assert planned(entries, key_type, **flags) == list(judged(rows, key_type, **flags)), (seed, flags)


def test_no_file_is_left_out_or_read_twice() -> None:
    rows, key_type = random_rows(3, ("INT", "STRING"), 3000)
    names = [name for _, _, names, _ in planned(ManifestEntries.from_rows(rows), key_type) for name in names]
    assert sorted(names) == sorted(row.file.file_name for row in rows)


def test_columns_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where keys have numbers, no file is described for the plan; decimals of 38 digits have none."""
    monkeypatch.setattr(planner, "_by_files", _refuse)
    for kinds in KEYS:
        rows, key_type = random_rows(1, kinds, 200)
        if "DECIMAL(38, 10)" in kinds:
            with pytest.raises(AssertionError, match="one by one"):
                planned(ManifestEntries.from_rows(rows), key_type)
        else:
            assert len(planned(ManifestEntries.from_rows(rows), key_type)) > 1


def _refuse(*_: object) -> None:
    raise AssertionError("files are described one by one")


# --- the parts


@pytest.mark.parametrize("kinds", [kinds for kinds in KEYS if "DECIMAL(38, 10)" not in kinds], ids=" ".join)
def test_numbers_compare_as_keys_do(kinds: tuple[str, ...]) -> None:
    draw, key_type = random.Random(1), row_of(*(f"{kind} NOT NULL" for kind in kinds))
    keys = [encode_row(key_values(draw, kinds), key_type) for _ in range(300)]
    found = key_numbers(ByteWords.from_bytes(keys[:150]), ByteWords.from_bytes(keys[150:]), key_type)
    assert found is not None
    numbers = np.concatenate(found).tolist()
    values = [key_order(key_type)(key) for key in keys]
    ranked = sorted(range(300), key=lambda i: values[i])
    assert ranked == sorted(range(300), key=lambda i: numbers[i])
    groups = [list(group) for _, group in groupby(ranked, key=lambda i: values[i])]
    assert groups == [list(group) for _, group in groupby(ranked, key=lambda i: numbers[i])]


@pytest.mark.parametrize(
    "keys",
    [
        [encode_row((1,), row_of("INT")), b""],
        [encode_row((1,), row_of("INT")), encode_row((None,), row_of("INT"))],
        [encode_row((1,), row_of("INT")), encode_row((1, 2), row_of("INT", "INT"))],
        [encode_row((1,), row_of("INT")), encode_row((1,), row_of("INT"))[:-1]],
        [EMPTY_ROW, EMPTY_ROW],
    ],
    ids=["empty", "null", "arity", "short", "no field"],
)
def test_keys_of_other_layouts_have_no_numbers(keys: list[bytes]) -> None:
    words = ByteWords.from_bytes(keys)
    assert key_numbers(words, words, row_of("INT NOT NULL")) is None


@pytest.mark.parametrize("kind", ["STRING", "TIMESTAMP(9)"])
def test_damaged_offsets_have_no_numbers(kind: str) -> None:
    key = bytearray(encode_row(("a long text",) if kind == "STRING" else (5,), row_of(kind)))
    key[4 + 8 + 4] = 200
    words = ByteWords.from_bytes([bytes(key)])
    assert key_numbers(words, words, row_of(f"{kind} NOT NULL")) is None


def test_keys_are_the_same_whatever_holds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept from the first decoding, decoded again, or in rows; very long ones are not compared as columns."""
    monkeypatch.setattr(codec, "MANY_ENTRIES", 0)
    key_type = row_of("STRING NOT NULL")
    for length in (3, 20, 100, 400):
        rows, _ = random_rows(2, ("INT",), 50)
        rows = [
            replace(row, file=replace(row.file, min_key=encode_row((f"{i:0{length}}",), key_type)))
            for i, row in enumerate(rows)
        ]
        for entries in (ManifestEntries.from_rows(rows), decode_manifest(encode_manifest(rows), "m")):
            entries = entries.select(slice(None, None, -2))
            found = entries.keys()
            assert found is not None
            assert found[0].to_list() == [file.min_key for file in entries.files()]
            assert found[1].to_list() == [file.max_key for file in entries.files()]
    rows[7] = replace(rows[7], file=replace(rows[7].file, max_key=encode_row(("x" * 600,), key_type)))
    assert ManifestEntries.from_rows(rows).keys() is None
    assert decode_manifest(encode_manifest(rows), "m").keys() is None


@pytest.mark.parametrize("span", [8, 200, 1 << 62, 1 << 63])
def test_sections_of_columns_equal_those_of_files(span: int) -> None:
    draw = random.Random(span)
    for _ in range(150):
        buckets = sorted(draw.choices(range(draw.choice((1, 4))), k=draw.randrange(1, 40)))
        bucket = np.unique(buckets, return_inverse=True)[1]
        bounds = [sorted((draw.randrange(-span, span), draw.randrange(-span, span))) for _ in buckets]
        bounds = [(low, high if draw.random() < 0.4 else low) for low, high in bounds]
        low, high = np.array(bounds, np.int64).reshape(-1, 2).T
        found = section_columns(bucket, low, high)
        files = [data_file(str(i), keys=bound) for i, bound in enumerate(bounds)]
        of_file = {file.min_key: low for file, (low, _) in zip(files, bounds, strict=True)}
        of_file |= {file.max_key: high for file, (_, high) in zip(files, bounds, strict=True)}
        wanted, overlapping = [], []
        for number in range(int(bucket.max()) + 1):
            members = [files[i] for i in np.flatnonzero(bucket == number)]
            for section in sections(members, of_file.__getitem__):
                wanted.append([int(file.file_name) for file in section.files])
                overlapping.append(len(section.runs) > 1)
        ends = [*found.starts.tolist()[1:], len(bucket)]
        order = found.order.tolist()
        assert [order[a:b] for a, b in zip(found.starts.tolist(), ends, strict=True)] == wanted
        assert found.overlapping.tolist() == overlapping
