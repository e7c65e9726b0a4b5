"""What goes when some roots go: the files that no other root reaches, those in the quarantine included.

A snapshot or tag that waits in the quarantine still counts, or taking it back would bring up one with holes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lakecore.errors import CorruptDataError, NotFoundError
from lakecore.maintain.reachable import Doomed, Held, Reach
from lakecore.maintain.roots import Root, RootKind, RootSet
from lakecore.maintain.runs import Removal, RunRecord, RunState, RunStore
from lakecore.maintain.target import Target
from lakecore.metadata.data_file import EntryKind
from lakecore.metadata.snapshot import Snapshot

__all__ = ["Needs", "quarantined_roots", "removal_of"]

logger = logging.getLogger(__name__)

Hashes = npt.NDArray[np.uint64]

_KINDS = {"snapshot-": RootKind.SNAPSHOT, "tag-": RootKind.TAG, "changelog-": RootKind.CHANGELOG}


class Needs:
    """What stays needed: by roots that stay (strictly), and by roots in the quarantine (as far as
    it is there).
    """

    def __init__(self, target: Target, staying: Sequence[Root], quarantined: Sequence[Root]) -> None:
        self._staying = (Reach(target), staying)
        self._quarantined = (Reach(target, strict=False), quarantined)

    def metadata(self) -> frozenset[str]:
        """Paths."""
        return frozenset(
            path for reach, roots in (self._staying, self._quarantined) for path in reach.metadata(roots)
        )

    def data(self, wanted: Hashes) -> Held:
        """Which of the data files."""
        (reach, roots), (lenient, more) = self._staying, self._quarantined
        return reach.data(roots, wanted).joined(lenient.data(more, wanted))


def removal_of(
    target: Target, gone: Sequence[Root], kept: RootSet, quarantined: Sequence[Root], why: str
) -> Removal:
    """The root files of `gone`, and what only they need. `kept`: the roots that stay."""
    roots = tuple(Doomed(root.path, 0, why) for root in gone)
    if not gone:
        return Removal(roots)
    old = Reach(target, strict=False)
    lists = [
        name
        for root in gone
        for name in (
            root.snapshot.base_manifest_list,
            root.snapshot.delta_manifest_list,
            None if root.kind is RootKind.TAG else root.snapshot.changelog_manifest_list,
        )
        if name is not None
    ]
    candidates = old.candidates(lists, EntryKind.ADD)
    needs = Needs(target, kept.roots, quarantined)
    held = needs.data(candidates.hashes())
    needed = needs.metadata()
    metadata = [Doomed(path, size, why) for path, size in old.metadata(gone).items() if path not in needed]
    return Removal(roots, (*candidates.doomed(held, why), *metadata))


def quarantined_roots(runs: RunStore, table: str) -> tuple[Root, ...]:
    """Snapshots, tags and changelogs in the quarantine of a table."""
    found: list[Root] = []
    for record in runs.list(table):
        if not record.keeps or record.state not in (RunState.QUARANTINED, RunState.PLANNED):
            continue
        for number, doomed in enumerate(_roots_of(runs, record)):
            name = doomed.path.rpartition("/")[2]
            kind = next((kind for start, kind in _KINDS.items() if name.startswith(start)), None)
            root = None if kind is None else _read(runs, runs.kept_path(record, number, doomed.path), kind)
            if root is not None:
                found.append(root)
    return tuple(found)


def _roots_of(runs: RunStore, record: RunRecord) -> tuple[Doomed, ...]:
    """None of a damaged record: nobody can take it back."""
    try:
        return runs.removal(record).roots
    except CorruptDataError as err:
        logger.warning("the quarantine of run %s cannot be taken back and keeps nothing: %s", record.id, err)
        return ()


def _read(runs: RunStore, path: str, kind: RootKind) -> Root | None:
    try:
        snapshot = Snapshot.from_json(runs.file_io.read(path), path)
    except (NotFoundError, CorruptDataError):
        return None
    return Root(kind, "main", f"{snapshot.id} in quarantine", path, snapshot)
