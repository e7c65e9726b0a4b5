"""This module replays an expiry over the history of a table: which files could have gone when. Pure.

A file is needed by a row of snapshots, from the first to the last that has it, and by holders: tags, other
branches, changelogs, runs in the quarantine. It can go when the row has expired and no holder has it.

Cost: for each run that expires something some 10 ns a file; memory: 40 bytes a file, and 8 bytes for each
file of each holder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.maintain.expire_changelogs.plan import plan_changelog_expiry
from lakecore.maintain.expire_snapshots.plan import AgedSnapshot, Retention, plan_expiry

__all__ = [
    "ExpiryHistory",
    "ExpiryReplay",
    "ExpiryRules",
    "ExpiryStep",
    "FileRows",
    "Holder",
    "HolderBytes",
    "StoredBytes",
    "replay_expiry",
    "run_times",
]

Ints = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileRows:
    """These are the files of a history, in columns: data, changelog and index files, and metadata.

    `first` and `last` are places in the list of snapshots. Both are -1 for a file that only holders have.
    """

    names: Ints
    """These are the hashes of the names."""
    sizes: Ints
    first: Ints
    last: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Holder:
    """A holder keeps files that snapshots may no longer need. `files` are places in the rows of files."""

    name: str
    files: Ints
    snapshot: int | None = None
    """This is the id of the snapshot of a tag. Only a snapshot that exists can be tagged."""
    from_ms: int | None = None
    """None: it was there before the first snapshot of the history."""
    created_ms: int | None = None
    """This is the recorded time of a tag; a tag without one never ends."""
    retained_ms: int | None = None
    """It ends so long after `created_ms`; None means never."""
    automatic: bool = False
    """It tells whether it counts for `ExpiryRules.automatic_tags`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpiryHistory:
    """This is what a replay knows of a table. Snapshots are ordered by id."""

    snapshots: tuple[AgedSnapshot, ...]
    files: FileRows
    holders: tuple[Holder, ...] = ()
    consumers: Mapping[str, int] = field(default_factory=dict)
    """These are the first snapshots that each consumer still needs, now."""
    changelogs: Mapping[int, Ints] = field(default_factory=dict)
    """These files stay as the changelog of a snapshot that expires, by its id."""
    old_changelogs: Mapping[AgedSnapshot, Ints] = field(default_factory=dict)
    """These changelogs, with their files, had outlived their snapshots before the history begins."""
    changelog_consumers: Mapping[str, int] = field(default_factory=dict)
    """These are the first changelogs that each consumer still needs, now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryRules:
    """These are the limits of an expiry. `retention_ms` is the age from which snapshots may expire."""

    retain_max: int
    retain_min: int
    retention_ms: int
    max_deletes: int
    tag_ms: int | None = None
    """All tags are retained for so long; None: each as long as it says itself."""
    automatic_tags: int | None = None
    """So many automatic tags remain when one is made: those of the newest snapshots. None means all."""
    changelogs: ExpiryRules | None = None
    """These are the limits of changelogs that outlive their snapshots; None: they never expire."""

    def at(self, now_ms: int) -> Retention:
        """Return the limits of a run. Raises InvalidInputError for limits that contradict each other."""
        return Retention(
            retain_max=self.retain_max,
            retain_min=self.retain_min,
            older_than_ms=now_ms - self.retention_ms,
            max_deletes=self.max_deletes,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpiryStep:
    """This is one run that would have removed something."""

    time_ms: int
    snapshots: tuple[int, ...]
    tags: tuple[str, ...]
    changelogs: tuple[int, ...]
    files: int
    """This counts the files of the snapshots, tags and changelogs, too."""
    bytes: int
    names: Ints
    """These are the hashes of the names of the removed files, without snapshots and tags."""
    blocker: str = ""
    """It says what kept the next snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBytes:
    """From `time_ms` on, so many files and bytes were in the table."""

    time_ms: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderBytes:
    """At the end a holder alone keeps so many files and bytes."""

    name: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpiryReplay:
    """This is the result of a replay. `average_bytes` is over the time from the first snapshot to the end."""

    steps: tuple[ExpiryStep, ...]
    points: tuple[StoredBytes, ...]
    """It changes at each commit and each step."""
    average_bytes: int
    peak_bytes: int
    snapshots: tuple[int, ...]
    """These snapshots are there at the end."""
    holdings: tuple[HolderBytes, ...]
    impossible_tags: tuple[str, ...]
    """The snapshots of these tags would have expired before the tags were created."""
    blocker: str
    """It says what keeps the oldest snapshot at the last run."""


class _Event(IntEnum):
    """These are the kinds of events."""

    HOLD = 0
    COMMIT = 1
    RUN = 2


def run_times(start_ms: int, every_ms: int, until_ms: int) -> tuple[int, ...]:
    """Return all multiples of `every_ms` since 1970 from `start_ms` to `until_ms`."""
    return tuple(range(-(-start_ms // every_ms) * every_ms, until_ms + 1, every_ms))


def replay_expiry(
    history: ExpiryHistory, rules: ExpiryRules | None, runs: Sequence[int] | None, until_ms: int
) -> ExpiryReplay:
    """Replay the runs at these moments, up to `until_ms`; None: after each commit. Without `rules` nothing
    expires.
    """
    state = _State(history, rules)
    for time, _, kind, place in sorted(_events(history, runs)):
        if time <= until_ms:
            state.handle(time, kind, place)
    return state.result(until_ms)


def _events(history: ExpiryHistory, runs: Sequence[int] | None) -> Iterator[tuple[int, int, _Event, int]]:
    """Yield the events as time, order at that time, kind and place. A clock of a writer that goes back counts
    as one that stands still.
    """
    latest = 0
    for place, snapshot in enumerate(history.snapshots):
        latest = max(latest, snapshot.time_ms)
        yield latest, 2 * place, _Event.COMMIT, place
        if runs is None:
            yield latest, 2 * place + 1, _Event.RUN, place
    for place, holder in enumerate(history.holders):
        if holder.from_ms is not None:
            yield holder.from_ms, -1, _Event.HOLD, place
    for time in runs or ():
        yield time, 2 * len(history.snapshots), _Event.RUN, 0


class _State:
    """The table as the replay has it at one moment."""

    def __init__(self, history: ExpiryHistory, rules: ExpiryRules | None) -> None:
        self._history, self._rules = history, rules
        files = history.files
        self._removed = np.zeros(len(files.sizes), np.bool_)
        self._holds = np.zeros(len(files.sizes), np.int32)
        self._active: dict[int, Holder] = {}
        self._latest = -1
        self._end = 0
        self._impossible: list[str] = []
        self._steps: list[ExpiryStep] = []
        self._points: list[StoredBytes] = []
        self._blocker = ""
        for place, holder in enumerate(history.holders):
            if holder.from_ms is None:
                self._hold(place)
        self._changelogs: dict[AgedSnapshot, Ints] = {}
        for changelog, files_of_changelog in history.old_changelogs.items():
            self._keep_changelog(changelog, files_of_changelog)
        old = files.first < 0
        self._count, self._bytes = int(old.sum()), int(files.sizes[old].sum())
        new = files.first[~old]
        places = len(history.snapshots)
        self._new_files = np.bincount(new, minlength=places)
        self._new_bytes = np.bincount(new, weights=files.sizes[~old], minlength=places).astype(np.int64)

    def handle(self, time_ms: int, kind: _Event, place: int) -> None:
        if kind is _Event.COMMIT:
            self._latest = place
            self._count += int(self._new_files[place]) + 1  # its own file
            self._bytes += int(self._new_bytes[place])
        elif kind is _Event.HOLD:
            if not self._begin_hold(time_ms, place):
                return
        elif not self._run(time_ms):
            return
        self._points.append(StoredBytes(time_ms=time_ms, files=self._count, bytes=self._bytes))

    def result(self, until_ms: int) -> ExpiryReplay:
        history = self._history
        times = [*(one.time_ms for one in self._points), until_ms]
        spans = np.maximum(np.diff(times), 0)
        whole = int(spans.sum())
        weighted = sum(int(span) * one.bytes for span, one in zip(spans, self._points, strict=True))
        return ExpiryReplay(
            steps=tuple(self._steps),
            points=tuple(self._points),
            average_bytes=weighted // whole if whole else self._bytes,
            peak_bytes=max((one.bytes for one in self._points), default=0),
            snapshots=tuple(one.id for one in history.snapshots[self._end : self._latest + 1]),
            holdings=tuple(self._holdings()),
            impossible_tags=tuple(self._impossible),
            blocker=self._blocker,
        )

    def _begin_hold(self, now_ms: int, place: int) -> bool:
        """Begin to hold the files of a tag, unless its snapshot has expired; return whether surplus tags were
        removed.
        """
        holder = self._history.holders[place]
        ids = {one.id for one in self._history.snapshots[: self._end]}
        if holder.snapshot in ids:
            self._impossible.append(holder.name)
            return False
        self._hold(place)
        surplus = self._remove_surplus() if holder.automatic else ()
        if surplus:
            self._record(now_ms, (), surplus, ())
        return bool(surplus)

    def _hold(self, place: int) -> None:
        holder = self._history.holders[place]
        self._active[place] = holder
        self._holds[holder.files] += 1

    def _end_hold(self, place: int) -> str:
        """End the hold of a tag; return the name of the tag."""
        holder = self._active.pop(place)
        self._holds[holder.files] -= 1
        return holder.name.removeprefix("tag ")

    def _run(self, now_ms: int) -> bool:
        """Run the expiry of tags, snapshots and changelogs; return whether something was removed."""
        if self._rules is None or self._latest < 0:
            return False
        tags = self._expire_tags(now_ms)
        existing = self._history.snapshots[self._end : self._latest + 1]
        expiry = plan_expiry(existing, self._rules.at(now_ms), self._history.consumers)
        self._blocker = expiry.blocker
        self._end += len(expiry.ids)
        for snapshot in existing[: len(expiry.ids)]:
            if snapshot.id in self._history.changelogs:
                self._keep_changelog(snapshot, self._history.changelogs[snapshot.id])
        changelogs = self._expire_changelogs(now_ms)
        if not (expiry.ids or tags or changelogs):
            return False
        self._record(now_ms, expiry.ids, tags, changelogs)
        return True

    def _record(
        self, now_ms: int, ids: tuple[int, ...], tags: tuple[str, ...], changelogs: tuple[int, ...]
    ) -> None:
        """Remove what nothing needs any more, and record the step."""
        names, files, size = self._free()
        self._count -= files + len(ids)
        self._bytes -= size
        self._steps.append(
            ExpiryStep(
                time_ms=now_ms,
                snapshots=ids,
                tags=tags,
                changelogs=changelogs,
                files=files + len(ids) + len(tags) + len(changelogs),
                bytes=size,
                names=names,
                blocker=self._blocker,
            )
        )

    def _expire_tags(self, now_ms: int) -> tuple[str, ...]:
        tag_ms = self._rules.tag_ms if self._rules is not None else None
        ended = []
        for place, holder in list(self._active.items()):
            retained, created = tag_ms if tag_ms is not None else holder.retained_ms, holder.created_ms
            if created is not None and retained is not None and now_ms > created + retained:
                ended.append(self._end_hold(place))
        return tuple(ended)

    def _remove_surplus(self) -> tuple[str, ...]:
        """End the automatic tags of the oldest snapshots, where there are too many; return their names."""
        most = self._rules.automatic_tags if self._rules is not None else None
        if most is None:
            return ()
        automatic = [(one.snapshot or 0, place) for place, one in self._active.items() if one.automatic]
        automatic.sort()
        return tuple(self._end_hold(place) for _, place in automatic[: max(0, len(automatic) - most)])

    def _keep_changelog(self, changelog: AgedSnapshot, files: Ints) -> None:
        self._changelogs[changelog] = files
        self._holds[files] += 1

    def _expire_changelogs(self, now_ms: int) -> tuple[int, ...]:
        """Expire changelogs that have outlived their snapshots; return their ids."""
        rules = self._rules.changelogs if self._rules is not None else None
        if rules is None or not self._changelogs:
            return ()
        standing = sorted(self._changelogs, key=lambda one: one.id)
        latest, consumers = self._history.snapshots[self._latest].id, self._history.changelog_consumers
        ids = plan_changelog_expiry(standing, latest, rules.at(now_ms), consumers).ids
        for changelog in standing[: len(ids)]:
            self._holds[self._changelogs.pop(changelog)] -= 1
        return ids

    def _free(self) -> tuple[Ints, int, int]:
        """Remove what nothing needs any more; return the names, how many files these are, and their bytes."""
        files = self._history.files
        lanes = np.flatnonzero((files.last < self._end) & (self._holds == 0) & ~self._removed)
        self._removed[lanes] = True
        return files.names[lanes], len(lanes), int(files.sizes[lanes].sum())

    def _holdings(self) -> list[HolderBytes]:
        """Return what each holder alone keeps."""
        files = self._history.files
        alone = (files.last < self._end) & (self._holds == 1) & ~self._removed
        holdings = []
        for holder in self._active.values():
            lanes = holder.files[alone[holder.files]]
            if len(lanes):
                size = int(files.sizes[lanes].sum())
                holdings.append(HolderBytes(name=holder.name, files=len(lanes), bytes=size))
        shared = np.zeros(len(self._holds), np.int32)
        for places in self._changelogs.values():
            shared[places] += 1
        lanes = np.flatnonzero(
            (shared > 0) & (shared == self._holds) & (files.last < self._end) & ~self._removed
        )
        if len(lanes):
            size = int(files.sizes[lanes].sum())
            holdings.append(HolderBytes(name="changelogs", files=len(lanes), bytes=size))
        return sorted(holdings, key=lambda one: -one.bytes)
