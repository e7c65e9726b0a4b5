"""This module has the context of repair actions, and the parts that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakecore.commit.committer import Committer
from lakecore.commit.request import CommitRequest
from lakecore.data_class import dataclass
from lakecore.errors import CommitUncertainError, LakeError, NotFoundError
from lakecore.maintain.deletion.roots import RootSet
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.deletion.sweep import RootSteps, Sweeper, SweepResult, do_nothing
from lakecore.maintain.repair.plan import ActionPreview, Growth
from lakecore.maintain.target import Target
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.snapshot import BATCH_IDENTIFIER

__all__ = ["Action", "ActionResult", "RepairContext", "move_to_quarantine"]


@dataclass(frozen=True)
class RepairContext:
    """This is the context in which repair actions run."""

    main: Target
    """This is the main branch; the sweeper works on it."""
    sweeper: Sweeper
    user: str
    """This is the user of commits."""
    quarantine: bool = True
    """It tells whether removed files are moved to the quarantine."""

    def at(self, branch: str) -> Target:
        """Return that branch, with its own schema. Raises NotFoundError for one without a schema."""
        if branch == self.main.paths.branch:
            return self.main
        target = self.main.at_branch(branch)
        schema = target.schemas.latest()
        if schema is None:
            raise NotFoundError(f"branch {branch!r} of {self.main.name} has no schema")
        return self.main.at_branch(branch, schema)

    def commit(
        self, target: Target, messages: Sequence[CommitMessage], discard: Callable[[], None]
    ) -> ActionResult:
        """Commit a snapshot of these messages. `discard` removes their files unless they are, or may be, in
        it.

        Raises CommitConflictError when others changed the same files meanwhile, CommitUncertainError.
        """
        committer = Committer(target.stores)
        try:
            result = committer.commit(messages, CommitRequest(user=self.user, identifier=BATCH_IDENTIFIER))
        except CommitUncertainError:
            raise
        except LakeError:
            discard()
            raise
        return ActionResult(
            snapshot=result.snapshot_ids[-1] if result.snapshot_ids else None, files=len(messages)
        )


@dataclass(frozen=True, slots=True)
class ActionResult:
    """This is the result of an action: a run that can be undone, or a snapshot."""

    run: str | None = None
    snapshot: int | None = None
    files: int = 0


Parameters = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """This is a kind of repair, which has a function that finds changes and one that makes them."""

    look: Callable[[RepairContext, str, Parameters], ActionPreview | None]
    """It returns what the action would do to a branch now, None for nothing. It changes nothing."""
    do: Callable[[RepairContext, str, Parameters, frozenset[str]], ActionResult]
    """This function makes the given changes."""
    whole_table: bool = False
    """It tells whether the action is for all branches at once."""
    growth: Growth = Growth.STALE
    """It says what to do with changes that are not in the plan; see `Growth`."""
    last_of_branch: bool = False
    """It tells whether nothing more of the branch can be planned before this is done."""
    changes_files: bool = False
    """It tells whether the branch has other live files afterwards."""
    needs_final_files: bool = False
    """It tells whether it can be planned only when no step before it changes the live files."""


def move_to_quarantine(
    context: RepairContext, action: str, removal: Removal, settle: Callable[[], None] = do_nothing
) -> ActionResult:
    """Move root files to the quarantine. The files that they needed stay and become orphans."""
    swept: SweepResult = context.sweeper.sweep(
        f"repair-{action}",
        removal,
        RootSet((), ()),
        quarantine=context.quarantine,
        steps=RootSteps(settle=settle),
    )
    return ActionResult(run=swept.run, files=swept.roots)
