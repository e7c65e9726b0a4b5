"""This module tells a replay of the expiry of snapshots what an expiry of partitions would have changed.
Pure.

Each run that expires partitions commits a snapshot, which ends their data files; compactions that would have
found only such files commit none. Snapshots are numbered accordingly: consumers, tags and changelogs mean the
same snapshots by other ids. Of these commits the replay counts the file of the snapshot, not its manifests,
whose sizes nobody knows. Files beside data files, as those of indexes, end when they really did.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lakecore.maintain.expire_snapshots.plan import AgedSnapshot
from lakecore.maintain.replay.partition_history import PartitionHistory, PartitionReplay
from lakecore.maintain.replay.plan import ExpiryHistory, Holder

__all__ = ["with_expired_partitions"]

Ints = npt.NDArray[Any]


def with_expired_partitions(
    history: ExpiryHistory, partitions: PartitionHistory, replayed: PartitionReplay
) -> ExpiryHistory:
    """Return the history with the snapshots that `replayed` would have committed, and data files as they
    would have been. Both are of the same snapshots of one table.
    """
    if not replayed.steps:
        return history
    return _ExpiredHistory(history, partitions, replayed).history()


class _ExpiredHistory:
    """The history, with the ids and places that snapshots have among those of the steps."""

    def __init__(
        self, history: ExpiryHistory, partitions: PartitionHistory, replayed: PartitionReplay
    ) -> None:
        self._history, self._replayed = history, replayed
        self._after = [step.snapshot for step in replayed.steps]
        """The steps came after these snapshots; the ids never fall."""
        self._idle = replayed.idle
        self._ids = [one.id for one in history.snapshots]
        count = len(self._ids) + len(self._after) - len(self._idle)
        places = (place + self._shift(snapshot) for place, snapshot in enumerate(self._ids))
        self._new_places = np.array([*places, count])
        """These are the new places by the old ones, and the number of snapshots. A snapshot that would not
        have been has the place of the next one.
        """
        data = {file.name for commit in partitions.commits for file in commit.added}
        self._is_data = np.array([name in data for name in history.files.names.tolist()], np.bool_)
        self._last = self._last_places()
        never = set(replayed.never)
        exists = np.array([name not in never for name in history.files.names.tolist()], np.bool_)
        begins = self._new_places[np.maximum(history.files.first, 0)]
        self._exists = exists & ((history.files.first < 0) | self._is_data | (begins <= self._last))
        self._rows = np.cumsum(self._exists) - 1
        """These are the places of the files among those that would have been."""

    def history(self) -> ExpiryHistory:
        old = self._history
        first = old.files.first
        files = replace(
            old.files,
            names=old.files.names[self._exists],
            sizes=old.files.sizes[self._exists],
            first=np.where(first < 0, first, self._new_places[np.maximum(first, 0)])[self._exists],
            last=self._last[self._exists],
        )
        none = np.zeros(0, np.int64)
        steps = {one.id: none for one in self._step_snapshots()} if old.changelogs else {}
        return replace(
            old,
            snapshots=self._snapshots(),
            files=files,
            holders=tuple(map(self._holder, old.holders)),
            consumers=self._positions(old.consumers),
            changelogs={
                self._new_id(one): self._files(places)
                for one, places in old.changelogs.items()
                if one not in self._idle
            }
            | steps,
            old_changelogs={one: self._files(places) for one, places in old.old_changelogs.items()},
            changelog_consumers=self._positions(old.changelog_consumers),
        )

    def _shift(self, snapshot: int) -> int:
        """Return by how much the snapshots before this one are more than they were."""
        return bisect_left(self._after, snapshot) - bisect_left(self._idle, snapshot)

    def _new_id(self, snapshot: int) -> int:
        return snapshot + self._shift(snapshot)

    def _step_snapshots(self) -> list[AgedSnapshot]:
        return [
            AgedSnapshot(step.snapshot + number - bisect_right(self._idle, step.snapshot), step.time_ms)
            for number, step in enumerate(self._replayed.steps, 1)
        ]

    def _snapshots(self) -> tuple[AgedSnapshot, ...]:
        real = [
            replace(one, id=self._new_id(one.id))
            for one in self._history.snapshots
            if one.id not in self._idle
        ]
        return tuple(sorted([*real, *self._step_snapshots()], key=lambda one: one.id))

    def _positions(self, consumers: Mapping[str, int]) -> dict[str, int]:
        return {name: self._new_id(snapshot) for name, snapshot in consumers.items()}

    def _last_places(self) -> Ints:
        """Return the last places of the files. A data file that a commit ended was in the snapshots of the
        steps before that commit, unless one of them ended it.
        """
        files = self._history.files
        places = np.maximum(files.last, 0)
        idle = np.array([one in self._idle for one in self._ids], np.int64)
        last = np.where(
            self._is_data, self._new_places[places + 1] - 1, self._new_places[places] - idle[places]
        )
        ends: dict[int, int] = {}
        for number, step in enumerate(self._replayed.steps):
            before = bisect_right(self._ids, step.snapshot) - 1 - bisect_right(self._idle, step.snapshot)
            for name in step.names:
                ends.setdefault(name, before + number)
        cut = np.array([ends.get(name, self._new_places[-1]) for name in files.names.tolist()], np.int64)
        return np.where(files.last < 0, files.last, np.minimum(last, cut))

    def _files(self, places: Ints) -> Ints:
        """Return the files of a holder, without those that would not have been."""
        return self._rows[places[self._exists[places]]]

    def _holder(self, holder: Holder) -> Holder:
        """Return a holder as it would have been: a tag lacks what had expired before its snapshot."""
        files = holder.files
        if holder.snapshot is None or holder.snapshot not in self._ids:
            return replace(holder, files=self._files(files))
        place = self._new_places[self._ids.index(holder.snapshot)]
        is_expired = (
            self._is_data[files] & (self._history.files.last[files] >= 0) & (self._last[files] < place)
        )
        snapshot = self._new_id(holder.snapshot) - (holder.snapshot in self._idle)
        return replace(holder, files=self._files(files[~is_expired]), snapshot=snapshot)
