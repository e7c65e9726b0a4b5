"""This module decides what a hold does to each chore, which record replaces which, and which of them a clean
check ends. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType

from lakecore.errors import CorruptDataError, ProofError
from lakecore.maintain.holds.record import EndsWith, Hold

__all__ = ["EFFECTS", "HoldEffect", "effect_on", "ended_by_check", "ends_with", "is_damage", "replaced_by"]

_MOST = 20
"""Automatic records of a table that end alike; each further one replaces the oldest."""
_METADATA = ("snapshot", "schema", "manifest", "tag", "changelog")
"""Directories of a table whose files every whole check decodes."""


class HoldEffect(Enum):
    """It says what happens to a chore on a table that is on hold."""

    REFUSED = "refused"
    """It removes something, or moves away what protects it."""
    CREATES_ONLY = "creates only"
    """It creates what it would create, and nothing is removed."""
    QUARANTINE_ONLY = "quarantine only"
    """A remedy: it may take away what is broken, but nothing is deleted for good."""
    ALLOWED = "allowed"
    """It removes nothing: it creates, takes back, moves hints, or rewrites and leaves the old files."""


EFFECTS: Mapping[str, HoldEffect] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "clear-consumers",
                "compact-manifest",
                "delete-branch",
                "delete-tag",
                "drop-partition",
                "drop-table",
                "expire-changelogs",
                "expire-consumers",
                "expire-partitions",
                "expire-snapshots",
                "expire-tags",
                "fast-forward",
                "purge-files",
                "purge-quarantine",
                "remove-orphan-files",
                "rename-branch",
                "rename-table",
                "replace-tag",
            ),
            HoldEffect.REFUSED,
        ),
        **dict.fromkeys(
            ("automatic-tags", "create-batch-tags", "trigger-tag-automatic-creation"), HoldEffect.CREATES_ONLY
        ),
        **dict.fromkeys(("apply-repair-plan", "rollback-to"), HoldEffect.QUARANTINE_ONLY),
        **dict.fromkeys(
            (
                "analyze",
                "compact",
                "create-branch",
                "create-tag",
                "fsck",
                "hold",
                "mark-partition-done",
                "merge-branch",
                "release",
                "remove-unexisting-files",
                "remove-unexisting-manifests",
                "rename-tag",
                "repair-earliest-snapshot",
                "repair-hints",
                "rescale",
                "reset-consumer",
                "restore-table",
                "rewrite-file-index",
                "rollback-to-as-latest",
                "undo",
                "why",
            ),
            HoldEffect.ALLOWED,
        ),
    }
)
"""It has every chore by its name. Compaction and similar chores continue: they prove what they write, fail
by themselves at what is damaged, and remove no file, as the snapshots before theirs stay.
"""


def effect_on(chore: str) -> HoldEffect:
    """Return what a hold does to a chore. A chore that is not classified is refused."""
    return EFFECTS.get(chore, HoldEffect.REFUSED)


def is_damage(error: BaseException, own_directory: str) -> bool:
    """Return whether the error puts the table on hold. `own_directory` is where lakecore keeps its records.

    A damaged record of lakecore's own says nothing about the table.
    """
    if isinstance(error, CorruptDataError):
        return not error.path.startswith(own_directory)
    return isinstance(error, ProofError)


def ends_with(error: BaseException) -> EndsWith:
    """Return which check can see the cause: for damaged metadata every complete one, for anything else a deep
    one.
    """
    if not isinstance(error, CorruptDataError):
        return EndsWith.DEEP_FSCK
    directory = error.path.rpartition("/")[0].rpartition("/")[2]
    return EndsWith.FSCK if directory in _METADATA else EndsWith.DEEP_FSCK


def replaced_by(new: Hold, existing: Iterable[Hold]) -> tuple[Hold, ...]:
    """Return the records that `new` makes superfluous: those of its cause, and the oldest of too many."""
    if not new.automatic:
        return ()
    alike = [hold for hold in existing if hold.ends_with is new.ends_with and hold.id != new.id]
    same = [hold for hold in alike if hold.cause == new.cause]
    others = sorted((hold for hold in alike if hold.cause != new.cause), key=lambda hold: hold.since_ms)
    return (*same, *others[: max(0, len(others) + 1 - _MOST)])


def ended_by_check(holds: Sequence[Hold], *, deep: bool, read_data: bool) -> tuple[Hold, ...]:
    """Return the holds that end when a check of this kind finds no damage: none by a check that opens no data
    file.
    """
    if not read_data:
        return ()
    ways = (EndsWith.FSCK, EndsWith.DEEP_FSCK) if deep else (EndsWith.FSCK,)
    return tuple(hold for hold in holds if hold.ends_with in ways)
