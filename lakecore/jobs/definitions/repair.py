"""This module has jobs that check, explain and repair: holds, the quarantine, hints, manifests, missing
files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar

from lakecore.data_class import dataclass
from lakecore.jobs.definitions.parameter import Kind, Parameter
from lakecore.jobs.definitions.table_job import CommittingJob, Definition, TableJob

__all__ = [
    "ApplyRepairPlan",
    "CompactManifest",
    "Fsck",
    "HoldTable",
    "Purge",
    "ReleaseTable",
    "RemoveUnexistingFiles",
    "RemoveUnexistingManifests",
    "RepairCatalog",
    "RepairEarliestSnapshot",
    "RepairHints",
    "Undo",
    "Why",
]


@dataclass(frozen=True, kw_only=True)
class RepairHints(TableJob):
    """Correct LATEST and EARLIEST of all branches to match the snapshots that exist."""

    command: ClassVar[str] = "repair-hints"
    module: ClassVar[str] = "repair.metadata"


@dataclass(frozen=True, kw_only=True)
class RepairEarliestSnapshot(TableJob):
    """Set EARLIEST to `snapshot`, which follows a gap in the ids: there the continuous sequence up to the
    latest begins.
    """

    command: ClassVar[str] = "repair-earliest-snapshot"
    module: ClassVar[str] = "repair.metadata"

    snapshot: Annotated[
        int,
        Parameter("Begin with this snapshot, the first after a gap in the ids.", flags=("--snapshot-id",)),
    ]


@dataclass(frozen=True, kw_only=True)
class CompactManifest(CommittingJob):
    """Rewrite small manifests and those with deletions, in a commit of its own, which changes no row."""

    command: ClassVar[str] = "compact-manifest"
    module: ClassVar[str] = "repair.metadata"


@dataclass(frozen=True, kw_only=True)
class ApplyRepairPlan(TableJob):
    """This is a request to apply a repair plan."""

    command: ClassVar[str] = "apply-repair-plan"
    module: ClassVar[str] = "repair.repair_plan"
    removes: ClassVar[bool] = True

    plan: Annotated[
        Mapping[str, Any] | str, Parameter("The plan that fsck made.", Kind.VALUE, on_command=False)
    ]
    """This is the plan, as JSON or its text, made by `plan_repair`."""
    steps: Annotated[
        tuple[int | str, ...], Parameter("The numbers of the steps; none: all, in order.", on_command=False)
    ] = ()
    allow_loss: Annotated[bool, Parameter("Apply also steps that lose rows, as the plan says.")] = False


@dataclass(frozen=True, kw_only=True)
class RepairCatalog(Definition):
    """Add tables whose files exist to a catalog's list of names, as Paimon's procedure `repair` does."""

    command: ClassVar[str] = "repair"
    module: ClassVar[str] = "migration.repair_catalog"

    target: Annotated[
        str, Parameter("The database, or the table; empty: all databases.", Kind.VALUE, on_command=False)
    ] = ""


@dataclass(frozen=True, kw_only=True)
class _UnexistingJob(CommittingJob):
    """A request to remove references to missing files."""

    module: ClassVar[str] = "repair.unexisting"

    accept_rows: Annotated[
        int | None,
        Parameter("Accept the loss of so many rows, as a dry run counts them; by default of none."),
    ] = None
    max_share: Annotated[
        float,
        Parameter("Refuse when a larger share of the files is missing, because storage may answer wrongly."),
    ] = 0.5
    """See `AcceptedLoss.max_share`."""


@dataclass(frozen=True, kw_only=True)
class RemoveUnexistingFiles(_UnexistingJob):
    """Remove missing data files. Where other files have older versions of a key, the newest of these comes
    back.
    """

    command: ClassVar[str] = "remove-unexisting-files"


@dataclass(frozen=True, kw_only=True)
class RemoveUnexistingManifests(_UnexistingJob):
    """Remove missing manifests."""

    command: ClassVar[str] = "remove-unexisting-manifests"

    accept_revived: Annotated[
        bool, Parameter("Files that a lost manifest removed may become live again.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class _HoldJob(TableJob):
    """A request about the holds of one table."""

    module: ClassVar[str] = "holds"
    leased: ClassVar[bool] = False

    user: Annotated[str, Parameter("Record this user in the ledger; by default the user of the process.")] = (
        ""
    )
    """Empty means the owner of the run (`safety.owner`), else the user of this process."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Not used: a hold must be possible on a table that cannot be opened."""


@dataclass(frozen=True, kw_only=True)
class HoldTable(_HoldJob):
    """Put a table on hold: nothing is removed from it until a person releases it."""

    command: ClassVar[str] = "hold"

    reason: Annotated[str, Parameter("Show this reason to users whom the hold affects.")]
    """This is the reason, for everyone whose chore the hold stops."""


@dataclass(frozen=True, kw_only=True)
class ReleaseTable(_HoldJob):
    """End all holds of the table, whatever their cause. The ledger records who released it."""

    command: ClassVar[str] = "release"


@dataclass(frozen=True, kw_only=True)
class Undo(TableJob):
    """Restore what a run moved to the quarantine."""

    command: ClassVar[str] = "undo"
    module: ClassVar[str] = "quarantine"

    run_id: Annotated[str, Parameter("The name of the run, in a report.", name="undo_run", on_command=False)]
    table: str = ""
    """This is the table of the run. The job finds it; leave it empty."""
    options: Mapping[str, str] = field(default_factory=dict)
    """These are the table options for this run only."""
    external: Annotated[bool, Parameter("Also move files back to data-file.external-paths.")] = False
    """Also restore to roots outside the warehouse that only the table's schema names (see
    `RemoveOrphanFiles.external`); the ledger alone does not permit writing there.
    """


@dataclass(frozen=True, kw_only=True)
class Purge(Definition):
    """Delete for good the files that have been in the quarantine for longer than `ttl_ms`, and the oldest
    beyond `cap` bytes. Tables that were dropped longer ago than `ttl_ms` are deleted, too; they do not count
    for `cap`.
    """

    command: ClassVar[str] = "purge-quarantine"
    module: ClassVar[str] = "quarantine"

    ttl_ms: Annotated[
        int,
        Parameter(
            "Keep a run in the quarantine for so long.", Kind.DURATION, "quarantine_ttl", default_text="7 d"
        ),
    ]
    cap: Annotated[
        int | None,
        Parameter(
            "Keep so many bytes in the quarantine, and delete the oldest runs beyond; 'none' means no limit.",
            Kind.SIZE,
            "quarantine_cap",
            default_text="100 gb",
        ),
    ] = None
    purge_run: Annotated[
        str, Parameter("Delete only the files of this run, whatever their age and size.")
    ] = ""
    dry_run: Annotated[bool, Parameter("Report what would be deleted, and delete nothing.")] = False


@dataclass(frozen=True, kw_only=True)
class Fsck(Definition):
    """This is a request to check one table."""

    command: ClassVar[str] = "fsck"
    module: ClassVar[str] = "fsck"

    table: str
    deep: Annotated[bool, Parameter("Check every snapshot on its own; decode every column.")] = False
    read_data: Annotated[
        bool,
        Parameter("Do not open data files: no row counts, no key order.", Kind.NO_FLAG, "no_data"),
    ] = True
    older_than_ms: Annotated[
        int | None,
        Parameter(
            "Younger unreferenced files are only counted, as writers may need them; by default 1 d.",
            Kind.MOMENT,
        ),
    ] = None
    """In milliseconds since the epoch; younger files that nobody refers to are counted, but are no findings.
    The default is a day ago.
    """
    holds: Annotated[
        bool,
        Parameter("Neither put tables on hold for damage nor end holds.", Kind.NO_FLAG, "no_hold"),
    ] = True
    """Damage puts the table on hold, and a check without damage ends the holds that it can end."""
    owner: str = ""
    """The owner that the hold records; empty means the user of this process."""


@dataclass(frozen=True, kw_only=True)
class Why(TableJob):
    """This is a question about one table."""

    command: ClassVar[str] = "why"
    module: ClassVar[str] = "why"

    subject: Annotated[
        str | None, Parameter("Give the name of a file or the id of a snapshot.", on_command=False)
    ] = None
    """None asks about the table's expiry; a file may also be given by its path."""
    dry_run: Annotated[bool, Parameter("Nothing is changed in any case.", on_command=False)] = True
