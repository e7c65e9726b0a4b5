"""This module decides which changelogs expire. Pure.

Spec: as for snapshots, counted from the latest snapshot's id; the latest changelog stays as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakecore.maintain.expire_snapshots.plan import AgedSnapshot, Expiry, Retention

__all__ = ["plan_changelog_expiry"]


def plan_changelog_expiry(
    changelogs: Sequence[AgedSnapshot],
    latest_snapshot: int,
    retention: Retention,
    consumers: Mapping[str, int],
) -> Expiry:
    """Plan the expiry. `changelogs` are the changelogs by id. `consumers` are the first snapshots that each
    consumer still needs.
    """
    if not changelogs:
        return Expiry((), None, "there are no changelogs that outlived their snapshots")
    earliest, latest = changelogs[0].id, changelogs[-1].id
    minimum = f"the newest changelogs are kept (changelog.num-retained.min={retention.retain_min})"
    limit = f"one run expires no more changelogs (snapshot.expire.limit={retention.max_deletes}); run again"
    bounds = [(latest_snapshot - retention.retain_min + 1, minimum)]
    bounds += [(first, f"consumer {name} still needs changelog {first}") for name, first in consumers.items()]
    bounds += [(earliest + retention.max_deletes, limit)]
    bounds += [(latest, "the latest changelog is always kept")]
    end, blocker = min(bounds)
    certain = max(latest_snapshot - retention.retain_max + 1, earliest)
    for one in changelogs:
        if certain <= one.id <= end and one.time_ms >= retention.older_than_ms:
            young = f"changelog {one.id} is younger than the retention time (changelog.time-retained)"
            end, blocker = one.id, young
            break
    ids = tuple(one.id for one in changelogs if one.id < end)
    return Expiry(ids, next((one.id for one in changelogs if one.id >= end), None), blocker)
