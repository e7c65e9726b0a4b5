"""Names of files in records: one component of a path, one by one and many at once."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from lakecore.errors import CorruptDataError, InvalidOptionError
from lakecore.format.manifest.manifests import (
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from lakecore.metadata.file_names import checked_location, checked_words, name_problem
from lakecore.metadata.json_record import json_object, json_value, whole_number
from lakecore.metadata.manifest.byte_words import ByteWords
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.snapshot import Snapshot
from tests.support.builders import data_file, manifest_entry, snapshot

BAD = [
    "",
    ".",
    "..",
    "a/b",
    "/a",
    "../a",
    "a\\b",
    "a\0",
    "\n",
    "\x1b[2J",
    "\x7f",
    "\x85",
    "\u2028",
    "x" * 256,
    "é" * 128,
]
GOOD = ["a", "..a", "a..b", "%2e%2e", "\uff0e\uff0e", "a b", "x" * 255, "é" * 127, "data-1.parquet", " "]


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_name(name: str) -> None:
    assert name_problem(name) is not None
    with pytest.raises(ValueError, match="is not a file name"):
        checked_words(ByteWords.from_bytes([b"data-1.parquet", name.encode(), b"x" * 20]), "f")


@pytest.mark.parametrize("name", GOOD)
def test_what_is_a_name(name: str) -> None:
    assert name_problem(name) is None
    checked_words(ByteWords.from_bytes([name.encode()]), "f")


def test_many_at_once_are_judged_as_one_by_one() -> None:
    rng = random.Random(5)
    alphabet = [chr(c) for c in range(256)] + list("abcdef-._0123456789") * 12
    seen = set()
    for _ in range(3000):
        name = "".join(rng.choice(alphabet) for _ in range(rng.choice([0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 40])))
        wrong = name_problem(name) is not None
        seen.add(wrong)
        try:
            checked_words(ByteWords.from_bytes([b"data-x", name.encode(), b"y" * rng.randrange(1, 60)]), "f")
        except ValueError:
            assert wrong, repr(name)
        else:
            assert not wrong, repr(name)
    assert seen == {True, False}


@pytest.mark.parametrize("count", [1, 3000])
@pytest.mark.parametrize(
    "change",
    [
        {"file_name": "../x"},
        {"extra_files": ("a", "../x")},
        {"external_path": "file:///a/../x"},
        {"external_path": "x"},
    ],
)
def test_a_manifest_with_such_a_name_is_damaged(change: dict[str, object], count: int) -> None:
    """Few entries are decoded one by one, many in lock-step; the special parts of those only when they are asked for."""
    rows = [manifest_entry(data_file(f"data-{n}")) for n in range(count)]
    rows[-1] = manifest_entry(replace(data_file("data-last"), **change))  # type: ignore[arg-type]
    with pytest.raises(CorruptDataError, match=r"m-1: .*(_FILE_NAME|_EXTRA_FILES|_EXTERNAL_PATH)"):
        decode_manifest(encode_manifest(rows), "m-1").files()


def test_a_list_with_such_a_name_is_damaged() -> None:
    line = ManifestFile(file_name="../x\x1b", file_size=1, num_added_files=1, num_deleted_files=0)
    with pytest.raises(CorruptDataError, match=r"_FILE_NAME '../x\\x1b' is not a file name"):
        decode_manifest_list(encode_manifest_list([line]), "l-1")


@pytest.mark.parametrize(
    "key", ["baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "statistics"]
)
def test_a_snapshot_with_such_a_name_is_damaged(key: str) -> None:
    raw = json_object(snapshot(3).to_json()) | {key: "../x"}
    import json

    with pytest.raises(CorruptDataError, match=key):
        Snapshot.from_json(json.dumps(raw), "s")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data-file.prefix", "../x-"), ("data-file.prefix", "/x-"), ("changelog-file.prefix", "a\0"), ("data-file.prefix", "x" * 200),
        ("data-file.path-directory", "/etc"), ("data-file.path-directory", "a/../.."), ("data-file.path-directory", ".."),
        ("data-file.path-directory", "file:/x"), ("data-file.path-directory", "a//b"), ("data-file.path-directory", "a\nb"),
    ],
)  # fmt: skip
def test_options_stay_below_the_table(key: str, value: str) -> None:
    schema = TableSchema(id=0, fields=(), highest_field_id=0, options={"bucket": "-1", key: value})
    with pytest.raises(InvalidOptionError, match=key):
        TableOptions.from_schema(schema)


def test_options_that_stay_there_are_as_they_are() -> None:
    given = {"bucket": "-1", "data-file.prefix": "..x-", "data-file.path-directory": "a/b/"}
    options = TableOptions.from_schema(TableSchema(id=0, fields=(), highest_field_id=0, options=given))
    assert (options.data_file_prefix, options.path_directory) == ("..x-", "a/b/")


@pytest.mark.parametrize(
    "text", ["x", "a/b", "file:///a/../b", "/a/./b", "/a/..", "/a\n", "s3://b/../c", "/a\\..\\b"]
)
def test_what_is_no_location(text: str) -> None:
    with pytest.raises(ValueError, match="is not the location of a file"):
        checked_location(text, "f")


def test_locations() -> None:
    for text in ("/a/b", "file:/a", "file:///a/b..c", "s3://b/dt=1%2F..%2F/c", "oss://b/c", "/a/...b"):
        assert checked_location(text, "f") == text


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 50_000,
        "1" * 6000,
        "NaN",
        "1e999",
        "-Infinity",
        '{"a": ' + "9" * 5000 + "}",
        "\xff",
        "{} {}",
    ],
)
def test_json_that_is_too_much(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of many kinds
        json_value(text.encode("latin-1"))


def test_whole_numbers() -> None:
    assert [whole_number(text) for text in ("7", b" 12\n", "0", str(2**63 - 1))] == [7, 12, 0, 2**63 - 1]
    for text in ("", "-1", "²", "٣", "1" * 6000, str(2**63), "1_0", "+1", b"\xff", "1.0", "0x1"):
        assert whole_number(text) is None
