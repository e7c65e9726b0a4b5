"""This module decides whether a write without rows makes a snapshot all the same, so that time advances for
automatic tags.

Rule of the format: where tags follow the time of commits, when the next one is due; where they follow the
watermark, when the latest one lies `snapshot.watermark-idle-timeout` or more in the past; and always with
`commit.force-create-snapshot`. Writers of `write-only` tables make no tags, and so force no snapshots.
"""

from __future__ import annotations

from lakecore.maintain.auto_tags.apply import newest_tag
from lakecore.maintain.auto_tags.options import FORCE, IDLE_TIMEOUT, MODE, PROCESS_ZONE, auto_rule
from lakecore.maintain.auto_tags.plan import CreationMode, is_due
from lakecore.maintain.target import Target
from lakecore.maintain.wall_clock import WallClock
from lakecore.metadata.options import WRITE_ONLY
from lakecore.store.table_stores import TableStores

__all__ = ["forces_snapshot"]


def forces_snapshot(name: str, stores: TableStores) -> bool:
    """Return whether the options need a snapshot even for an empty commit. It costs a listing of tags or a
    read of the latest snapshot where the options ask. Days and hours are UTC where the options name no zone.
    Raises InvalidOptionError.
    """
    target = Target(name, stores.paths.table_path.rsplit("/", 2)[0], stores)
    options, now = target.schema.options, target.clock.now_ms()
    if FORCE.read(options):
        return True
    mode = MODE.read(options)
    if WRITE_ONLY.read(options) or not mode.by_period:
        return False
    if mode is CreationMode.WATERMARK:
        idle_ms, latest = IDLE_TIMEOUT.read(options), target.snapshots.latest()
        watermark = None if latest is None else latest.watermark
        return idle_ms is not None and watermark is not None and now - idle_ms >= watermark
    wall = WallClock.of(PROCESS_ZONE.read(options) or "UTC")
    local = wall.local_ms(now)
    return local is not None and is_due(auto_rule(options), newest_tag(target), local)
