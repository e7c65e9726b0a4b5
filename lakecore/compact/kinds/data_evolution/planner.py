"""This module plans from the live files of a table with `data-evolution.enabled` to picks of units."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from lakecore.compact.engine.planner import PlanContext
from lakecore.compact.engine.work import PickOutline, Place, RoundPlan, outlines_of
from lakecore.compact.kinds.append.planner import join_request
from lakecore.compact.kinds.data_evolution.apply import run_unit, work_picks
from lakecore.compact.kinds.data_evolution.blob_plan import BlobRules
from lakecore.compact.kinds.data_evolution.plan import Columns, plan_ranges
from lakecore.data_class import dataclass
from lakecore.errors import UnsupportedError
from lakecore.metadata.dedicated_columns import (
    BLOB_COMPACTION,
    REWRITE_ROW_IDS,
    DedicatedColumns,
    has_dedicated_column_types,
    is_ordinary_file,
)
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.read.context import ReadContext
from lakecore.read.file.column_sources import field_ids
from lakecore.scan.change_scanner import Deletions
from lakecore.scan.plan import SplitPolicy
from lakecore.scan.row_ranges import plan_row_ranges

__all__ = ["DataEvolutionPlanner"]


@dataclass(frozen=True)
class DataEvolutionPlanner:
    """It plans for tables whose files contain different columns of the same rows
    (`lakecore.compact.engine.planner.TablePlanner`).
    """

    context: PlanContext

    def plan(
        self, entries: ManifestEntries, file_prefix: str, excluded: Collection[Place], deletions: Deletions
    ) -> RoundPlan:
        """Return a pick for each range of row ids whose files become fewer.

        Raises InvalidOptionError; UnsupportedError for ordinary files that hold parts of the rows of others,
        and where deleted rows are to get new ids.
        """
        context = self.context
        target, reading = context.target, context.target.reading
        table = context.unit_table(entries)
        plan_row_ranges(entries, SplitPolicy.from_options({}), target.name)
        if deletions and REWRITE_ROW_IDS.read(reading.schema.options):
            raise UnsupportedError(
                f"table {target.name}: option {REWRITE_ROW_IDS.key}=true: this release does not remove "
                "deleted rows from such tables; unset the option for this run"
            )
        request = join_request(target, context.strategy)
        picks = plan_ranges(entries, request, _columns(reading, entries), deletions, _blob_rules(reading))
        executable, outdated = context.executable(picks, excluded)
        work = context.scheduled(work_picks(executable, table, file_prefix))
        return RoundPlan(work, run_unit, table, outdated, entries)

    def outline(
        self, entries: ManifestEntries, excluded: Collection[Place], deletions: Deletions
    ) -> tuple[PickOutline, ...]:
        """Return the same picks in numbers."""
        return outlines_of(self.plan(entries, "none", excluded, deletions).picks)


def _blob_rules(reading: ReadContext) -> BlobRules | None:
    """Return how blob files are merged; None where the table does not ask for it."""
    raw, row_type = reading.schema.options, reading.schema.row_type
    if not BLOB_COMPACTION.read(raw):
        return None
    dedicated = DedicatedColumns.of(row_type, raw, reading.options.target_file_size)
    ids = frozenset(row_type.field(name).id for name in dedicated.blobs)
    return BlobRules(dedicated.blob_size, ids, partial(field_ids, reading))


def _columns(reading: ReadContext, entries: ManifestEntries) -> Columns:
    """Return which columns have dedicated files, by the options and by the files that there are."""
    raw, size = reading.schema.options, reading.options.target_file_size
    dedicated = DedicatedColumns.of(reading.schema.row_type, raw, size)
    ids = {field.name: field.id for field in reading.schema.fields}
    apart = {ids[name] for name in (*dedicated.blobs, *dedicated.vectors)}
    readable = entries.select(entries.schema_id <= reading.schema.id)
    ids_in = partial(field_ids, reading)
    for file in readable.files() if apart or has_dedicated_column_types(reading.schema.row_type) else ():
        apart |= frozenset() if is_ordinary_file(file.file_name) else ids_in(file)
    return Columns(ids, frozenset(apart), ids_in)
