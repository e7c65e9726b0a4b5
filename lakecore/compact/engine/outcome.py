"""This module records what a compaction did, added up pick by pick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from lakecore.compact.engine.work import Place, WorkPick
from lakecore.data_class import dataclass
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.shape import Shape
from lakecore.scan.filters import ScanFilter
from lakecore.verify.proof.pick_proof import PickProof
from lakecore.verify.proof.proof_sum import sums_of
from lakecore.write.files.copy_plan import NOTHING_COPIED, CopyCount

__all__ = ["GroupFigures", "Outcome", "ProvenPick", "RunRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    """These are the figures of the buckets that were planned together."""

    where: ScanFilter
    """It selects the buckets."""
    before: Shape
    """These are their live files when they were planned first."""
    planned: Shape
    """The picks of a dry run would leave these; without a dry run, it is the same as `before`."""
    picks: int = 0
    """The dry run has so many picks."""
    changed: bool = False
    """It tells whether the run has committed something of them."""


@dataclass(frozen=True, slots=True)
class ProvenPick:
    """This is a pick whose units all ran and whose outputs hold. `proof` is None when files only moved.

    `marks`: serialised bitmaps by file name: rows of files that stay, and that are deleted now.
    """

    pick: WorkPick
    files: tuple[DataFile, ...]
    proof: PickProof | None
    changelog: tuple[DataFile, ...] = ()
    marks: Mapping[str, bytes] = field(default_factory=dict)
    copied: CopyCount = NOTHING_COPIED


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The figures of committed picks; rows, files and bytes of moved files do not count (nothing was read).

    `dropped` are names of picks that another commit, or a change of the schema, made impossible, and
    `lost_places` their buckets. `decoded` tells which formats a second decoder read, and how many rows.
    `directories` are those of committed picks. `proofs` has the sum of each kind of proof. `copied` counts
    rows that were not decoded. `notes` tell what happened to snapshots that other writers replaced.
    """

    rows_in: int = 0
    rows_out: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    moved: int = 0
    picks_done: int = 0
    picks_left: int = 0
    snapshots: tuple[int, ...] = ()
    dropped: tuple[str, ...] = ()
    lost_places: tuple[Place, ...] = ()
    proofs: tuple[PickProof, ...] = ()
    decoded: str = ""
    directories: frozenset[str] = frozenset()
    stopped: bool = False
    notes: tuple[str, ...] = ()
    copied: CopyCount = NOTHING_COPIED

    def committed(
        self, picks: tuple[ProvenPick, ...], snapshots: tuple[int, ...], notes: tuple[str, ...] = ()
    ) -> Outcome:
        """Return the outcome with picks that were committed in `snapshots`."""
        replaced = [file for proven in picks for file in proven.pick.replaced]
        files = [file for proven in picks for file in proven.files]
        return replace(
            self,
            rows_in=self.rows_in + sum(proven.pick.rows for proven in picks),
            rows_out=self.rows_out + sum(file.row_count for file in files),
            files_in=self.files_in + len(replaced),
            files_out=self.files_out + len(files),
            bytes_in=self.bytes_in + sum(file.file_size for file in replaced),
            bytes_out=self.bytes_out + sum(file.file_size for file in files),
            moved=self.moved + sum(len(proven.pick.moved) for proven in picks),
            picks_done=self.picks_done + len(picks),
            snapshots=self.snapshots + snapshots,
            notes=self.notes + notes,
            directories=self.directories | {proven.pick.bucket_dir for proven in picks},
            copied=sum((proven.copied for proven in picks), self.copied),
            proofs=sums_of((*self.proofs, *(p.proof for p in picks if p.proof is not None))),
        )

    def lost(self, picks: tuple[WorkPick, ...]) -> Outcome:
        """Return the outcome with picks dropped because of a conflict."""
        return replace(
            self,
            dropped=self.dropped + tuple(pick.name for pick in picks),
            lost_places=self.lost_places + tuple(pick.place for pick in picks),
        )

    def left_out(self, places: Mapping[Place, str]) -> Outcome:
        """Return the outcome with buckets, by name, that have files of a newer schema than the job knows."""
        return replace(
            self,
            dropped=self.dropped + tuple(places.values()),
            lost_places=self.lost_places + tuple(places),
        )

    def with_lost(self, count: int) -> Outcome:
        """Return the outcome with the first `count` of what was dropped: the rest is planned again."""
        return replace(self, dropped=self.dropped[:count], lost_places=self.lost_places[:count])


@dataclass(slots=True)
class RunRecord:
    """This is the outcome of a run while it goes on. The run, its kind and its driver share it."""

    outcome: Outcome = field(default_factory=Outcome)
