"""Which changelogs go. Pure.

Spec: as for snapshots, counted from the latest snapshot's id; the latest changelog stays as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakecore.maintain.expire_snapshots.plan import Aged, Expiry, Retention

__all__ = ["plan_changelog_expiry"]


def plan_changelog_expiry(
    found: Sequence[Aged], latest_snapshot: int, retention: Retention, consumers: Mapping[str, int]
) -> Expiry:
    """`found`: changelogs by id. `consumers`: the first snapshot that each still needs."""
    if not found:
        return Expiry((), None, "there are no changelogs beyond those of snapshots")
    earliest, latest = found[0].id, found[-1].id
    bounds = [(latest_snapshot - retention.retain_min + 1, f"retain-min {retention.retain_min}")]
    bounds += [(position, f"consumer {name}") for name, position in consumers.items()]
    bounds += [(earliest + retention.max_deletes, f"max-deletes {retention.max_deletes}: run again for more")]
    bounds += [(latest, "the latest changelog stays")]
    end, blocker = min(bounds)
    certain = max(latest_snapshot - retention.retain_max + 1, earliest)
    for one in found:
        if certain <= one.id <= end and one.time_ms >= retention.older_than_ms:
            end, blocker = one.id, f"changelog {one.id} is not old enough"
            break
    ids = tuple(one.id for one in found if one.id < end)
    return Expiry(ids, next((one.id for one in found if one.id >= end), None), blocker)
