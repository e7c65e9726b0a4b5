"""This module decides which snapshots expire: a prefix of them, up to the first that something protects.
Pure.

Spec: with L the latest id and E the earliest, ids below L - retain_max + 1 expire whatever their age; ids up
to L - retain_min only when older than a time; never from a consumer's position on; at most `max_deletes` ids
at once. Ids are counted, so gaps count as if filled; the snapshots that exist decide what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

__all__ = ["AgedSnapshot", "Expiry", "Retention", "plan_expiry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Snapshots that were committed before `older_than_ms` may expire; one run expires at most
    `max_deletes` ids.

    `by_successor`: the age of a snapshot counts from when the next one replaced it (rule since 2.0): one that
    was the latest for long is not taken from under its readers.
    """

    retain_max: int
    retain_min: int
    older_than_ms: int
    max_deletes: int
    by_successor: bool = False

    def __post_init__(self) -> None:
        if self.retain_min < 1:
            raise InvalidInputError(
                f"retain-min {self.retain_min} must be at least 1, because the latest snapshot is always kept"
            )
        if self.retain_max < self.retain_min:
            raise InvalidInputError(
                f"retain-max {self.retain_max} is less than retain-min {self.retain_min}; change one of them"
            )
        if self.max_deletes < 1:
            raise InvalidInputError(f"max-deletes {self.max_deletes}: must be at least 1")


@dataclass(frozen=True, slots=True)
class AgedSnapshot:
    """This is a snapshot or changelog, which has an id and a commit time in milliseconds."""

    id: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class Expiry:
    """The snapshots `ids` expire, and `end` is the first that stays (None: nothing expires). `blocker` tells
    what keeps `end`.
    """

    ids: tuple[int, ...]
    end: int | None
    blocker: str


def plan_expiry(
    snapshots: Sequence[AgedSnapshot], retention: Retention, consumers: Mapping[str, int]
) -> Expiry:
    """Plan the expiry. `snapshots` is ordered by id. `consumers` are the first snapshots that each consumer
    still needs.
    """
    if not snapshots:
        return Expiry((), None, "there are no snapshots")
    earliest, latest = snapshots[0].id, snapshots[-1].id
    minimum = f"the newest snapshots are kept (snapshot.num-retained.min={retention.retain_min})"
    limit = f"one run expires no more snapshots (snapshot.expire.limit={retention.max_deletes}); run again"
    bounds = [(latest - retention.retain_min + 1, minimum)]
    bounds += [(first, f"consumer {name} still needs snapshot {first}") for name, first in consumers.items()]
    bounds += [(earliest + retention.max_deletes, limit)]
    end, blocker = min(bounds)
    certain = max(latest - retention.retain_max + 1, earliest)
    times = {one.id: one.time_ms for one in snapshots}
    for one in snapshots:
        if not certain <= one.id < end:
            continue
        time = times.get(one.id + 1, one.time_ms) if retention.by_successor else one.time_ms
        if time >= retention.older_than_ms:
            young = f"snapshot {one.id} is younger than the retention time (snapshot.time-retained)"
            end, blocker = one.id, young
            break
    ids = tuple(one.id for one in snapshots if one.id < end)
    return Expiry(ids, next((one.id for one in snapshots if one.id >= end), None), blocker)
