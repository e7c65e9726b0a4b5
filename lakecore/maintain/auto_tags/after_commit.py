"""This module makes automatic tags right after a commit of lakecore's own. The commit has landed: nothing
here makes it fail.

Rules of the format: periods make tags after the commits of writers that are not `write-only`, and of
compactions; mode `batch` makes one after every batch write, whatever `write-only` says. Errors are logged:
the rule by periods looks at history, so that the next commit, or `trigger-tag-automatic-creation`, makes what
is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from lakecore.errors import LakeError, UnavailableError, explain
from lakecore.executor import SerialExecutor
from lakecore.maintain.auto_tags.apply import BATCH_PREFIX, due_tags, expired, make
from lakecore.maintain.auto_tags.options import BATCH_NAME, MODE, PROCESS_ZONE, num_retained
from lakecore.maintain.auto_tags.plan import AutoTag, CreationMode, surplus
from lakecore.maintain.deletion.roots import Root, RootKind
from lakecore.maintain.deletion.runs import RunStore
from lakecore.maintain.deletion.sweep import Sweeper
from lakecore.maintain.holds.gate import HoldGate
from lakecore.maintain.holds.place import place_hold_for
from lakecore.maintain.holds.store import HoldStore
from lakecore.maintain.lease.lease import LeaseTimes, leased
from lakecore.maintain.partitions.in_step import list_tags
from lakecore.maintain.retention_options import TAG_DEFAULT_TIME
from lakecore.maintain.tags.apply import Lifetime, create, delete, deletion, move_tag, replace
from lakecore.maintain.target import Target
from lakecore.maintain.wall_clock import WallClock
from lakecore.metadata.options import WRITE_ONLY
from lakecore.scan.auto_tags import AutoTagNames
from lakecore.store.table_stores import TableStores

__all__ = ["tag_after_commit"]

logger = logging.getLogger(__name__)

_ZONE = "UTC"
_LEASE_MS = 60_000
_JOB = "automatic-tags"


def tag_after_commit(name: str, stores: TableStores, *, wrote: bool) -> None:
    """Make, and delete, the automatic tags of a branch. `wrote`: after a write, not a compaction.

    The table lies in the warehouse of its path, `<warehouse>/<database>.db/<table>`.
    """
    target = Target(name, stores.paths.table_path.rsplit("/", 2)[0], stores)
    try:
        mode = MODE.read(target.schema.options)
        if mode is CreationMode.BATCH and wrote:
            _tag_write(target)
        elif mode.by_period and not (wrote and WRITE_ONLY.read(target.schema.options)):
            _tag_periods(target)
        list_tags(target)
    except LakeError as err:
        holds = HoldStore(target.file_io, target.warehouse, target.clock)
        place_hold_for(err, holds, name, _JOB, "the commit before")
        logger.warning(
            "%s: the commit succeeded, but the automatic tags could not be updated after it (%s)",
            target.name,
            explain(err),
        )


def _tag_periods(target: Target) -> None:
    """Make the tags of periods that have ended. Tags are deleted only where a tag is made: once per
    period.
    """
    due = due_tags(target, _ZONE, latest_only=True)
    new_names = make(target, due, _ZONE)
    old_names = (*due.surplus, *(expired(target, _ZONE) if new_names else ()))
    if old_names:
        _sweeping(target, lambda sweeper: _delete(sweeper, old_names))


def _tag_write(target: Target) -> None:
    """Make the tag of the day, or move the one that always follows the latest snapshot: it is replaced in
    place, so that it is always there.
    """
    latest = target.snapshots.latest()
    if latest is None:
        return
    options = target.schema.options
    local = WallClock.of(PROCESS_ZONE.read(options) or _ZONE).local_ms(latest.time_millis)
    day = AutoTagNames.from_options({}).name_of(local or 0)
    name = BATCH_NAME.read(options) or f"{BATCH_PREFIX}{day}"
    root = Root(
        RootKind.SNAPSHOT, target.paths.branch, str(latest.id), target.paths.snapshot(latest.id), latest
    )
    lifetime = Lifetime.starting(target.clock.now_ms(), WallClock.of(_ZONE), TAG_DEFAULT_TIME.read(options))
    if target.file_io.stat(target.paths.tag(name)) is None:
        create(target, name, root, lifetime)
    elif (old := target.tags.load(name).id) != latest.id:
        if target.snapshots.exists(old):  # it has all that the tag held: there is nothing to free
            move_tag(target, name, root, lifetime)
        else:
            _move(target, name, root, lifetime)
    old_names = _beyond(target, name)
    if old_names:
        _sweeping(target, lambda sweeper: _delete(sweeper, old_names))


def _move(target: Target, name: str, root: Root, lifetime: Lifetime | None) -> None:
    try:
        _sweeping(
            target,
            lambda sweeper: replace(
                name, root, lifetime, sweeper, quarantine=False, parameters={"tag": name}
            ),
        )
    except UnavailableError as err:
        logger.info(
            "%s: tag %s was moved, but its old files remain until remove-orphan-files removes them: %s",
            target.name,
            name,
            err,
        )
        move_tag(target, name, root, lifetime)


def _beyond(target: Target, newest: str) -> tuple[str, ...]:
    """Return the tags beyond tag.num-retained-max, never `newest`.

    With names of its own making only these count. Where the option tag.batch.customized-name gives the names,
    which may be another one each time, all tags do.
    """
    most = num_retained(target.schema.options)
    if most is None:
        return ()
    own = BATCH_NAME.read(target.schema.options) is None
    names = [name for name in target.tags.list() if not own or name.startswith(BATCH_PREFIX)]
    if len(names) <= most:
        return ()
    written = {status.path: status.mtime_ms for status in target.file_io.list(target.paths.tag_dir)}
    tags = [
        AutoTag(name, written.get(target.paths.tag(name), 0), target.tags.load(name).id)
        for name in names
        if name != newest
    ]
    return surplus(tags, most - 1)


def _delete(sweeper: Sweeper, names: tuple[str, ...]) -> None:
    planned = deletion(sweeper.target, sweeper, names)
    delete(_JOB, planned, sweeper, quarantine=False, parameters={"tags": list(names)})
    logger.info("%s: tags %s were deleted", sweeper.target.name, ", ".join(names))


def _sweeping(target: Target, work: Callable[[Sweeper], object]) -> None:
    """Run work that removes files, for which it takes the table's lease. Raises UnavailableError while
    another chore has it.
    """
    runs = RunStore(target.file_io, target.warehouse, target.clock)
    owner = f"{_JOB} {target.clock.fresh_id()[:8]}"
    holds = HoldStore(target.file_io, target.warehouse, target.clock)
    with leased(
        target.file_io, target.warehouse, target.name, owner, target.clock, LeaseTimes(_LEASE_MS)
    ) as lease:
        gate = HoldGate(holds, target.name, _JOB)
        work(Sweeper(target, runs, SerialExecutor(), gate, lease.renew))
