"""Splits of batch reads are those that Java plans: which files go together, and whether they are merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import lakecore
from tests.support.golden import GoldenTable, golden_tables
from tests.support.oracle import Oracle

pytestmark = pytest.mark.slow

PACKED = {"source.split.target-size": "6 kb", "source.split.open-file-cost": "1 kb"}
"""Splits of some files each."""


def ours(table: GoldenTable, options: Mapping[str, str]) -> list[Any]:
    found = lakecore.load_catalog(str(table.warehouse)).load_table(table.name, options)
    return sorted(
        _comparable(
            split.partition.hex(),
            split.bucket,
            [file.file_name for file in split.files],
            split.raw_convertible,
            [split.deletions_of[f.file_name].place.offset if f.file_name in split.deletions_of else None for f in split.files],
        )
        for split in found.scan().plan()
    )  # fmt: skip


def javas(java: Oracle, table: GoldenTable, options: Mapping[str, str]) -> list[Any]:
    flags = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
    splits = java.call("splits", table.warehouse, table.name, *flags)
    return sorted(_comparable(*(split[name] for name in ("partition", "bucket", "files", "raw", "deletions"))) for split in splits)  # fmt: skip


def _comparable(partition: str, bucket: int, files: list[str], raw: bool, deletions: list[int | None]) -> Any:
    """The order of files counts where rows are read one file after another."""
    pairs = [(name, repr(deletion)) for name, deletion in zip(files, deletions, strict=True)]
    return partition, bucket, raw, pairs if raw else sorted(pairs)


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_splits_are_those_of_java(version: str, oracles: dict[str, Oracle]) -> None:
    several = 0
    for number, table in enumerate(golden_tables()):
        options = PACKED if number % 2 else {}
        mine = ours(table, options)
        assert mine == javas(oracles[version], table, options), table.name
        several += any(len(files) > 1 for *_, files in mine) and len(mine) > 1
    assert several > 20
