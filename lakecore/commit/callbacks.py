"""This module calls the commit callbacks of other packages: entry points of the group
`lakecore.commit_callbacks`, each a function that takes a `CommitEvent`.

They are called when the commit is made, in the process that made it. Whatever a callback raises is logged and
becomes a note of the result: the commit stands, and nobody repeats it or removes its files. A process that
dies right after a commit calls none, and a commit that finds itself published earlier calls them again: a
callback learns of most snapshots once, of some never or twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakecore.data_class import dataclass
from lakecore.entry_points import run_all
from lakecore.metadata.snapshot import Snapshot

__all__ = ["CommitCallback", "CommitEvent", "run_callbacks"]

_GROUP = "lakecore.commit_callbacks"


@dataclass(frozen=True, slots=True)
class CommitEvent:
    """It says what was committed."""

    table_path: str
    """It is the directory of the table."""
    branch: str
    snapshot: Snapshot
    repeated: bool
    """An earlier run published the snapshot, and may have called the callbacks."""


CommitCallback = Callable[[CommitEvent], object]
"""It is called after a commit; what it returns has no effect."""


def run_callbacks(events: Sequence[CommitEvent]) -> tuple[str, ...]:
    """Call every callback for every event, and return a note for each call that failed. It raises nothing.

    A commit that a callback makes calls none: a callback may write to a table.
    """
    return run_all(
        _GROUP,
        "commit callback",
        [
            (event, event.table_path, f"for snapshot {event.snapshot.id}, which stays committed")
            for event in events
        ],
    )
