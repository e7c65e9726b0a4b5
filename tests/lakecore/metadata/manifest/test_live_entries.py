"""Netting against the plain rule on dicts, and where two identities share a hash."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakecore.errors import CorruptDataError
from lakecore.metadata.manifest import live_entries as netting
from lakecore.metadata.manifest.data_file import EMPTY_ROW, EntryKind, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import live_entries, net_entries, remaining_deletes
from tests.support.builders import data_file, manifest_entry

ADD, DELETE = EntryKind.ADD, EntryKind.DELETE
OTHER = EMPTY_ROW[:-1] + b"\1"


def add(name: str, **place: object) -> ManifestEntry:
    level = int(str(place.pop("level", 0)))
    return manifest_entry(data_file(name, level=level), **place)  # type: ignore[arg-type]


def delete(name: str, **place: object) -> ManifestEntry:
    return replace(add(name, **place), kind=DELETE)


def names(entries: ManifestEntries) -> list[str]:
    return [f"{'-' if row.kind is DELETE else ''}{row.file.file_name}@{row.file.level}" for row in entries]


def columns(*rows: ManifestEntry) -> ManifestEntries:
    return ManifestEntries.from_rows(rows)


def test_a_delete_cancels_its_add() -> None:
    entries = columns(add("a"), add("b"), delete("a"), delete("x"))
    assert names(live_entries(entries)) == ["b@0"]
    assert names(remaining_deletes(entries)) == ["-x@0"]
    assert names(net_entries(entries)) == ["b@0", "-x@0"]


def test_an_upgrade_is_a_delete_and_an_add() -> None:
    assert names(live_entries(columns(add("a"), delete("a"), add("a", level=5)))) == ["a@5"]


def test_partition_and_bucket_are_part_of_the_identity() -> None:
    entries = columns(add("a"), add("a", bucket=1), add("a", partition=OTHER), delete("a", bucket=1))
    assert [(row.partition, row.bucket) for row in live_entries(entries)] == [(EMPTY_ROW, 0), (OTHER, 0)]


def test_extra_files_index_and_external_path_are_part_of_the_identity() -> None:
    plain = add("a")
    variants = [
        plain,
        replace(plain, file=replace(plain.file, extra_files=("a.index",))),
        replace(plain, file=replace(plain.file, embedded_index=b"")),
        replace(plain, file=replace(plain.file, external_path="s3://b/a")),
    ]
    for gone in range(4):
        entries = columns(*variants, replace(variants[gone], kind=DELETE))
        assert live_entries(entries).rows() == variants[:gone] + variants[gone + 1 :]


def test_a_double_add_is_damage_that_names_the_file() -> None:
    entries = columns(add("a", bucket=3), add("b"), add("c"), delete("c"), add("a", bucket=3))
    with pytest.raises(CorruptDataError, match=r"list-7: file a of bucket 3, level 0 is added twice"):
        live_entries(entries, where="list-7")
    assert names(live_entries(entries, strict=False)) == ["a@0", "b@0"]


def test_nothing_in_nothing_out() -> None:
    none = ManifestEntries.empty()
    assert len(live_entries(none)) == len(net_entries(none)) == len(remaining_deletes(none)) == 0
    assert len(ManifestEntries.concat([])) == 0


entry_lists = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 1), st.integers(0, 1), st.booleans()), max_size=12
)


@settings(max_examples=150)
@given(entry_lists, st.sampled_from([0, 3, -1]))
def test_agrees_with_the_plain_rule(drawn: list[tuple[str, int, int, bool]], mask: int) -> None:
    """Also where hashes collide: `mask` leaves few of their bits, or none."""
    rows, added = [], set()
    for name, bucket, level, is_delete in drawn:
        row = (delete if is_delete else add)(name, bucket=bucket, level=level)
        if is_delete or row.identity not in added:
            rows.append(row)
            added |= set() if is_delete else {row.identity}
    entries = columns(*rows)
    entries = replace(entries, name_hash=entries.name_hash & np.uint64(mask & (1 << 64) - 1))
    dead = {row.identity for row in rows if row.kind is DELETE}
    assert live_entries(entries).rows() == [
        row for row in rows if row.kind is ADD and row.identity not in dead
    ]
    found = {row.identity for row in remaining_deletes(entries)}
    assert found == dead - added
    kept = Counter(row.identity for row in net_entries(entries))
    assert set(kept) == added ^ dead
    assert all(count == 1 for count in kept.values())


def test_equal_hashes_of_other_names_do_not_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netting, "identity_hash", lambda entries: np.zeros(len(entries), np.uint64))
    entries = columns(add("a"), add("b"), delete("b"), add("c", bucket=1), delete("d"))
    assert names(live_entries(entries)) == ["a@0", "c@0"]
    assert names(remaining_deletes(entries)) == ["-d@0"]
