"""The base of a new snapshot: merged manifests mean what those before meant, deletes that wait included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import EntryKind, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.live_entries import with_kind
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.snapshot import CommitKind, Snapshot
from lakecore.store.manifests import ManifestStore
from lakecore.table import Table
from lakecore.verify.proof import snapshot_check
from lakecore.verify.proof.snapshot_check import SnapshotCheck
from tests.support.lake import key_table, memory_catalog, put

ADD, DELETE = EntryKind.ADD, EntryKind.DELETE
Line = Sequence[tuple[EntryKind, int]]


class Manifests:
    """Manifests with the files of a table, by number, and the snapshots that they make."""

    def __init__(self, table: Table) -> None:
        latest = table._stores.snapshots.latest()
        assert latest is not None
        self.latest = latest
        self.store: ManifestStore = table._stores.manifests
        self.files = table._scanner.live_entries(latest)

    def write(self, line: Line) -> tuple[ManifestFile, ...]:
        parts = [with_kind(self.files.select([number]), kind) for kind, number in line]
        return self.store.write(ManifestEntries.concat(parts))

    def snapshot(self, base: Iterable[ManifestFile], delta: Iterable[ManifestFile]) -> Snapshot:
        names = [self.store.write_list(tuple(lines))[0] for lines in (base, delta)]
        return replace(
            self.latest, base_manifest_list=names[0], delta_manifest_list=names[1],
            total_record_count=7, delta_record_count=0, changelog_record_count=None,
        )  # fmt: skip

    def check(self, before: tuple[Iterable[ManifestFile], ...], base: Iterable[ManifestFile]) -> None:
        """A commit of nothing, that only merges manifests."""
        latest = self.snapshot(*before)
        planned = replace(self.snapshot(base, ()), id=latest.id + 1, commit_kind=CommitKind.COMPACT)
        SnapshotCheck(())(planned, latest, self.store)


@pytest.fixture
def made(request: pytest.FixtureRequest) -> Manifests:
    table = key_table(memory_catalog(f"check-{request.node.name}"))
    put(table, *([{"k": number, "v": "x"}] for number in range(4)))
    return Manifests(table)


@pytest.mark.parametrize(
    ("waiting", "merged", "refusal"),
    [
        ([(DELETE, 0)], [[(DELETE, 0)]], None),
        ([(DELETE, 0), (ADD, 2)], [[(ADD, 2), (DELETE, 0)]], None),
        ([(DELETE, 0), (DELETE, 3)], [[(DELETE, 0)]], None),  # nothing adds file 3
        ([(DELETE, 0)], [], "brings removed files back"),
        ([(DELETE, 0), (ADD, 2)], [[(ADD, 2)]], "brings removed files back"),
        ([(DELETE, 0)], [[(DELETE, 0), (DELETE, 1)]], "removes files which the snapshot before did not"),
        ([(DELETE, 0), (ADD, 2)], [[(DELETE, 0)]], "lacks 1 live files"),
        ([(DELETE, 0)], [[(DELETE, 0), (ADD, 2)]], "has besides 1 live files"),
    ],
)
def test_deletes_of_files_in_manifests_that_stay(
    made: Manifests, waiting: Line, merged: Sequence[Line], refusal: str | None
) -> None:
    stays = made.write([(ADD, 0), (ADD, 1)])
    lines = [line for entries in merged for line in made.write(entries)]
    if refusal is None:
        made.check((stays, made.write(waiting)), (*stays, *lines))
    else:
        with pytest.raises(ProofError, match=refusal):
            made.check((stays, made.write(waiting)), (*stays, *lines))


def test_a_full_merge_drops_the_deletes_with_their_files(made: Manifests) -> None:
    before = made.write([(ADD, 0), (ADD, 1)]), made.write([(DELETE, 0), (ADD, 2)])
    made.check(before, made.write([(ADD, 1), (ADD, 2)]))
    with pytest.raises(ProofError, match="has besides 1 live files"):
        made.check(before, made.write([(ADD, 0), (ADD, 1), (ADD, 2)]))


def test_lines_describe_their_manifests(made: Manifests) -> None:
    before, after = made.write([(ADD, 0), (ADD, 1)]), made.write([(ADD, 0), (ADD, 1)])
    wrong = [replace(line, max_level=1) for line in after]
    with pytest.raises(ProofError, match="otherwise than it is"):
        made.check((before, ()), wrong)
    with pytest.raises(ProofError, match="names a manifest twice"):
        made.check((before, ()), (*after, *after))


def test_files_are_described_as_before(made: Manifests) -> None:
    def grown(entry: ManifestEntry) -> ManifestEntry:
        return replace(entry, file=replace(entry.file, row_count=entry.file.row_count + 1))

    before = made.write([(ADD, 0), (ADD, 1)])
    rows = made.files.select([0, 1]).rows()
    after = made.store.write(ManifestEntries.from_rows([rows[0], grown(rows[1])]))
    with pytest.raises(ProofError, match="describes files otherwise: row_count"):
        made.check((before, ()), after)


@pytest.mark.parametrize("lost", range(4))
def test_each_share_of_many_entries_is_compared(
    made: Manifests, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here a share has about one entry of eight: four of before and four of after."""
    monkeypatch.setattr(snapshot_check, "ENTRIES_AT_ONCE", 1)
    before = made.write([(ADD, number) for number in range(4)])
    made.check((before, ()), made.write([(ADD, number) for number in (3, 1, 0, 2)]))
    rest = made.write([(ADD, number) for number in range(4) if number != lost])
    with pytest.raises(ProofError, match="lacks 1 live files"):
        made.check((before, ()), rest)
    with pytest.raises(ProofError, match="has besides 1 live files"):
        made.check((rest, ()), before)
    waiting = made.write([(DELETE, lost)])
    with pytest.raises(ProofError, match="brings removed files back"):
        made.check((before, waiting), before)
