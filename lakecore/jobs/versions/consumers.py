"""This module has the jobs on consumers, the saved positions of streaming reads: reset one, clear some,
expire idle ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lakecore.clock import Clock
from lakecore.errors import InvalidInputError
from lakecore.executor import Executor
from lakecore.jobs.definitions.versions import ClearConsumers, ExpireConsumers, ResetConsumer
from lakecore.jobs.runner.chore import (
    Chore,
    ChoreKind,
    Lake,
    Report,
    parameters,
    run_on_table,
)
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.roots import read_roots
from lakecore.maintain.deletion.runs import Removal
from lakecore.maintain.retention_options import CONSUMER_TIME
from lakecore.metadata.consumer import Consumer

__all__ = ["ClearConsumers", "ExpireConsumers", "ResetConsumer", "run"]


_NAMES = {
    ResetConsumer: "reset-consumer",
    ClearConsumers: "clear-consumers",
    ExpireConsumers: "expire-consumers",
}


def run(
    job: ResetConsumer | ClearConsumers | ExpireConsumers,
    lake: Lake,
    executor: Executor | None = None,
    clock: Clock | None = None,
) -> Report:
    """Run a job on consumers. Raises NotFoundError, InvalidInputError before anything is touched."""
    kind = ChoreKind(_NAMES[type(job)], quarantine=True, by_age=isinstance(job, ExpireConsumers))
    return run_on_table(kind, job, lake, partial(_run, job), executor, clock)


def _run(job: ResetConsumer | ClearConsumers | ExpireConsumers, chore: Chore) -> Report:
    if isinstance(job, ResetConsumer):
        return _reset(job, chore)
    consumers = chore.target.consumers.list()
    deletion = _clear(job, consumers) if isinstance(job, ClearConsumers) else _expire(job, chore, consumers)
    return _forget(job, chore, deletion)


def _reset(job: ResetConsumer, chore: Chore) -> Report:
    store = chore.target.consumers
    if job.next_snapshot is None:
        return _forget(job, chore, [store.load(job.consumer)])
    if job.next_snapshot < 1:
        raise InvalidInputError(f"next-snapshot {job.next_snapshot}: snapshots count from 1")
    if not job.dry_run:
        store.write(job.consumer, job.next_snapshot)
    return replace(chore.report, names=(job.consumer,), snapshot=job.next_snapshot, quarantined=False)


def _clear(job: ClearConsumers, consumers: Sequence[Consumer]) -> list[Consumer]:
    try:
        pattern = re.compile(job.including)
        unwanted = None if job.excluding is None else re.compile(job.excluding)
    except re.error as err:
        raise InvalidInputError(f"including/excluding: not a regular expression: {err}") from err
    chosen = [consumer for consumer in consumers if pattern.fullmatch(consumer.id)]
    return [consumer for consumer in chosen if unwanted is None or not unwanted.fullmatch(consumer.id)]


def _expire(job: ExpireConsumers, chore: Chore, consumers: Sequence[Consumer]) -> list[Consumer]:
    time = job.expiration_ms
    time = CONSUMER_TIME.read(chore.target.schema.options) if time is None else time
    if time is None:
        raise InvalidInputError(
            f"{job.table}: it is unknown how long consumers may be idle; set "
            "consumer.expiration-time, or give "
            "expiration-time"
        )
    now = chore.target.clock.now_ms()
    return [consumer for consumer in consumers if 0 < consumer.updated_ms < now - time]


def _forget(job: Any, chore: Chore, consumers: Sequence[Consumer]) -> Report:
    target = chore.target
    paths = [target.paths.consumer(consumer.id) for consumer in consumers]
    removal = Removal(tuple(PlannedDeletion(path, 0, chore.report.job) for path in paths))
    names = tuple(consumer.id for consumer in consumers)
    report = replace(chore.report.planned(removal), names=names, nothing_to_do=not names)
    if not names or job.dry_run:
        return report
    roots = read_roots(target.file_io, target.paths)
    swept = chore.sweeper.sweep(
        chore.report.job, removal, roots, quarantine=chore.quarantine, parameters=parameters(job)
    )
    return report.with_sweep_result(swept)
