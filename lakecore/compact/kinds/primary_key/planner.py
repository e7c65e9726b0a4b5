"""This module plans from the live files of a primary-key table to picks of units."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from lakecore.clock import local_ms
from lakecore.compact.engine.planner import PlanContext
from lakecore.compact.engine.work import Place, RoundPlan
from lakecore.compact.kinds.primary_key import run
from lakecore.compact.kinds.primary_key.apply import UnitBuilder
from lakecore.compact.kinds.primary_key.expiry import Expiry
from lakecore.compact.kinds.primary_key.mode import MergeMode
from lakecore.compact.kinds.primary_key.plan import PickRequest, plan_picks
from lakecore.lsm.options import TreePolicy
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.read.context import ReadContext
from lakecore.scan.change_scanner import Deletions
from lakecore.write.options import FileRules

__all__ = ["PrimaryKeyPlanner", "tree_policy"]

_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class PrimaryKeyPlanner:
    """It plans for primary-key tables (`lakecore.compact.engine.planner.TablePlanner`)."""

    context: PlanContext

    def plan(
        self, entries: ManifestEntries, file_prefix: str, excluded: Collection[Place], deletions: Deletions
    ) -> RoundPlan:
        """Return at most one pick for each bucket. Raises InvalidOptionError."""
        context = self.context
        table = context.unit_table(entries)
        picks, outdated = context.doable(plan_picks(entries, self._request(deletions)), excluded)
        builder = UnitBuilder(
            table=table,
            file_prefix=file_prefix,
            engine=context.executor,
            deletions=deletions,
            copy=context.copy,
        )
        work = context.scheduled(builder.work_picks(picks))
        return RoundPlan(work, run.run_unit, table, outdated, entries)

    def _request(self, deletions: Deletions) -> PickRequest:
        target, reading = self.context.target, self.context.target.reading
        now = target.clock.now_ms()
        return PickRequest(
            strategy=self.context.strategy,
            policy=tree_policy(reading),
            mode=MergeMode.of(
                reading.options, lambda level: FileRules.of(reading.schema.options, level).format
            ),
            deletions=deletions,
            key_of=key_order(reading.schema.key_type),
            key_type=reading.schema.key_type,
            now_ms=now,
            expired=_expired_test(reading, now),
            hour=local_ms(now) // _HOUR_MS % 24,
        )


def tree_policy(reading: ReadContext) -> TreePolicy:
    """Return the table's options of universal compaction. Raises InvalidOptionError."""
    options = reading.options
    return TreePolicy.from_options(
        reading.schema.options, options.target_file_size, lookup=options.needs_lookup
    )


def _expired_test(reading: ReadContext, now_ms: int) -> Callable[[DataFile], bool] | None:
    """Return what tells whether a file has expired rows; None where rows do not expire."""
    expiry = Expiry.of(reading.schema, reading.options)
    if expiry is None:
        return None
    return lambda file: expiry.holds_expired(file, reading.file_schema(file.schema_id), now_ms)
