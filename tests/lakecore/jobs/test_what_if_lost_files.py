"""What the history did to files that a replay has lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakecore.compact.engine.work import Place
from lakecore.jobs.what_if.lost_files import LostFiles
from lakecore.metadata.manifest.data_file import EntryKind, ManifestEntry
from tests.support.builders import data_file, manifest_entry

PLACE = Place(b"", 0, 1)
OTHER = Place(b"", 1, 1)


def entries(*changes: str) -> list[ManifestEntry]:
    """`+a` adds a file, `-a` removes it; a digit after the name is its level."""
    kinds = {"+": EntryKind.ADD, "-": EntryKind.DELETE}
    return [manifest_entry(data_file(one[1], level=int(one[2:] or 0)), kind=kinds[one[0]]) for one in changes]


@pytest.mark.parametrize(
    ("changes", "compacts", "left", "mixed"),
    [
        (("+c",), False, "+c", False),
        (("-a", "-b", "+m5"), True, "", False),
        (("-a", "+a5"), True, "", False),
        (("-a", "-x", "+m5"), True, "-x +m", True),
        (("-a", "-x", "+a5", "+m5"), True, "-x +m", True),
        (("-a", "+n"), False, "+n", True),
        (("-x", "+n"), False, "-x +n", False),
        (("-x", "+m5"), True, "-x +m", False),
    ],
    ids=[
        "a writer adds",
        "a compaction of lost files",
        "a move to another level",
        "a compaction with others",
        "a move beside others",
        "a writer replaces",
        "a writer replaces others",
        "a compaction of others",
    ],
)
def test_a_commit_without_lost_files(changes: Sequence[str], compacts: bool, left: str, mixed: bool) -> None:
    lost = LostFiles()
    lost.add(PLACE, [data_file("a"), data_file("b")])
    found = lost.left_of(PLACE, entries(*changes), compacts=compacts)
    signs = {EntryKind.ADD: "+", EntryKind.DELETE: "-"}
    assert " ".join(signs[one.kind] + one.file.file_name for one in found) == left
    assert lost.mixed(PLACE) is mixed
    assert lost.left_of(OTHER, entries(*changes), compacts=compacts) == entries(*changes)


def test_what_was_made_of_lost_files_is_lost_and_a_bucket_that_is_empty_again_is_certain() -> None:
    lost = LostFiles()
    lost.add(PLACE, [data_file("a"), data_file("b")])
    lost.left_of(PLACE, entries("-a", "-b", "+m5"), compacts=True)
    assert lost.left_of(PLACE, entries("-m5", "+n5"), compacts=True) == []
    lost.left_of(PLACE, entries("-n5", "+o"), compacts=False)
    assert lost.mixed(PLACE)
    lost.add(PLACE, [data_file("o")])
    assert not lost.mixed(PLACE)
