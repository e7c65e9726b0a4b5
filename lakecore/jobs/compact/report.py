"""This module defines the report of a compaction job, and how it is built from the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from lakecore.compact.engine.outcome import Outcome
from lakecore.compact.engine.run import RewriteRun
from lakecore.compact.engine.work import PickOutline, Strategy
from lakecore.data_class import dataclass
from lakecore.jobs.runner.report import JobReport
from lakecore.metadata.manifest.shape import Shape
from lakecore.types.counted import counted

__all__ = ["Report", "Shape", "with_run"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(JobReport):
    """This is the result of a compaction. Rows, files and bytes in and out are those of rewritten files;
    `seconds` is the time from the plan to the last commit.
    """

    strategy: Strategy
    engine: str
    engine_reason: str = ""
    """It says why the engine was chosen, where the job left the choice to a forecast."""
    rows_in: int = 0
    rows_out: int = 0
    files_in: int = 0
    files_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    moved: int = 0
    """This is the number of files that only changed level."""
    proof: str = ""
    """This is what was proven."""
    skipped: str = ""
    """It says why nothing was done, where that is no error."""
    before: Shape = field(default_factory=Shape)
    after: Shape = field(default_factory=Shape)
    """This is the table after the run. For a dry run this is what the planned picks leave; its bytes and
    rows are upper bounds. Of a table that is planned in groups of partitions, both have the groups that the
    run came to.
    """
    picks_done: int = 0
    picks_left: int = 0
    """It counts a group of partitions that was not planned, because the time was over, as one pick."""
    dropped: tuple[str, ...] = ()
    """These are the picks that another commit made impossible."""
    planned: tuple[str, ...] = ()
    """A dry run would do this first."""
    files_copied: int = 0
    rows_copied: int = 0
    bytes_copied: int = 0
    """Of the rewritten files, rows and bytes these were copied by row groups, without decoding them."""
    decoded_because: Mapping[str, int] = field(default_factory=dict)
    """These are the rewritten files that were decoded although copies were asked for, by their reasons."""
    in_order: int = 0
    """These are the partitions that were skipped, because they already have the requested order."""
    warnings: tuple[str, ...] = ()
    """It says why rows of the table may not be readable, and what happened to snapshots that other writers
    replaced.
    """

    def to_json(self) -> dict[str, Any]:
        """Convert the report to plain values; levels become text, because JSON requires text as keys."""
        raw = super().to_json()
        for name in ("before", "after"):
            raw[name]["levels"] = {str(level): count for level, count in raw[name]["levels"].items()}
        return raw


def with_run(report: Report, run: RewriteRun, planned: Sequence[PickOutline]) -> Report:
    """Return `report` with the figures of `run`. `planned` are the picks of a dry run."""
    outcome = run.outcome
    snapshots = run.landed.ids + outcome.snapshots
    return replace(
        report,
        rows_in=outcome.rows_in,
        rows_out=outcome.rows_out,
        files_in=outcome.files_in,
        files_out=outcome.files_out,
        bytes_in=outcome.bytes_in,
        bytes_out=outcome.bytes_out,
        moved=outcome.moved,
        files_copied=outcome.copied.files,
        rows_copied=outcome.copied.rows,
        bytes_copied=outcome.copied.bytes,
        decoded_because=outcome.copied.decoded,
        snapshot=snapshots[-1] if snapshots else None,
        snapshots=snapshots,
        proof=_proof_text(outcome),
        picks_done=outcome.picks_done,
        picks_left=outcome.picks_left + len(planned),
        dropped=outcome.dropped,
        warnings=report.warnings + outcome.notes,
        planned=tuple(_planned_text(pick) for pick in planned),
        nothing_to_do=report.error is None and run.picks_planned == outcome.picks_left == 0,
        in_order=run.kind.in_order,
    )


def _planned_text(pick: PickOutline) -> str:
    parts = [f"merge {counted(pick.rewrites, 'file')}, {counted(pick.rows, 'row')}"] if pick.rewrites else []
    if pick.moves:
        parts.append(f"move {counted(sum(pick.moves.values()), 'file')}")
    return f"{pick.name}: {pick.reason}: {', '.join(parts)}"


def _proof_text(outcome: Outcome) -> str:
    """Return what was proven, summed over all picks."""
    parts = [str(proof) for proof in outcome.proofs]
    if outcome.decoded and outcome.proofs:
        parts.append(outcome.decoded)
    if outcome.moved:
        parts.append(f"{counted(outcome.moved, 'file')} moved to another level, metadata only")
    return "; ".join(parts)
