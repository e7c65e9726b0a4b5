"""This module calls the tag callbacks of other packages: entry points of the group `lakecore.tag_callbacks`,
each a function that takes a `TagEvent`.

They are called after a tag was created, moved to another snapshot or deleted, by a job or after a commit, in
the process that did it. Whatever a callback raises is logged, and changes nothing. A process that dies right
after it changed a tag calls none, and the run that goes on with its deletions does not either: as with Java's
callbacks, there is no promise that a callback is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.entry_points import run_all
from lakecore.maintain.target import Target

__all__ = ["TagCallback", "TagChange", "TagEvent", "run_tag_callbacks"]

_GROUP = "lakecore.tag_callbacks"


class TagChange(Enum):
    """It is what happened to a tag. A renamed tag is created, then deleted under its old name."""

    CREATED = "created"
    MOVED = "moved"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class TagEvent:
    """It says what happened to a tag."""

    table_path: str
    """It is the directory of the table."""
    branch: str
    tag: str
    change: TagChange
    snapshot_id: int | None
    """It is the snapshot for which the tag stands; None for a tag that was deleted."""


TagCallback = Callable[[TagEvent], object]
"""It is called after a tag was changed; what it returns has no effect."""


def run_tag_callbacks(
    target: Target, change: TagChange, names: Sequence[str], snapshot_id: int | None = None
) -> None:
    """Call every callback for each tag. It raises nothing. What a callback does itself calls none."""
    paths = target.paths
    run_all(
        _GROUP,
        "tag callback",
        [
            (
                TagEvent(paths.table_path, paths.branch, name, change, snapshot_id),
                paths.table_path,
                f"for tag {name}, which was {change.value}",
            )
            for name in names
        ],
    )
