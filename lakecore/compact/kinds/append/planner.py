"""This module plans from the live files of an append table to picks of units."""

from __future__ import annotations

from collections.abc import Collection

from lakecore.compact.engine.planner import PlanContext
from lakecore.compact.engine.target import RewriteTarget
from lakecore.compact.engine.work import PickOutline, Place, RoundPlan, Strategy, outlines_of
from lakecore.compact.kinds.append.apply import work_picks
from lakecore.compact.kinds.append.plan import JoinRequest, plan_joins
from lakecore.compact.kinds.append.run import run_unit
from lakecore.data_class import dataclass
from lakecore.lsm.options import AppendPolicy
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import BucketMode
from lakecore.scan.change_scanner import Deletions
from lakecore.scan.support import check_row_ids

__all__ = ["AppendPlanner", "join_request"]


@dataclass(frozen=True)
class AppendPlanner:
    """It plans for tables without a key (`lakecore.compact.engine.planner.TablePlanner`)."""

    context: PlanContext

    def plan(
        self, entries: ManifestEntries, file_prefix: str, excluded: Collection[Place], deletions: Deletions
    ) -> RoundPlan:
        """Return a pick for each group of files that become fewer. Raises InvalidOptionError,
        UnsupportedError for files whose rows would lose their ids.
        """
        context = self.context
        target, table = context.target, context.unit_table(entries)
        picks = plan_joins(entries, join_request(target, context.strategy), deletions)
        executable, outdated = context.executable(picks, excluded)
        check_row_ids(target.name, target.reading.options, (f for pick in executable for f in pick.files))
        work = context.scheduled(work_picks(executable, table, file_prefix, context.copy))
        return RoundPlan(work, run_unit, table, outdated, entries)

    def outline(
        self, entries: ManifestEntries, excluded: Collection[Place], deletions: Deletions
    ) -> tuple[PickOutline, ...]:
        """Return the same picks in numbers."""
        return outlines_of(self.plan(entries, "none", excluded, deletions).picks)


def join_request(target: RewriteTarget, strategy: Strategy) -> JoinRequest:
    """Return the rules by which files of the table are joined. Raises InvalidOptionError."""
    reading = target.reading
    return JoinRequest(
        strategy=strategy,
        policy=AppendPolicy.from_options(reading.schema.options, reading.options.target_file_size),
        ordered=reading.options.bucket_mode is not BucketMode.BUCKET_UNAWARE,
    )
