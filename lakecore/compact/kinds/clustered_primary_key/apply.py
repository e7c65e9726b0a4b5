"""This module turns picks of a bucket in another order than the key's into picks of units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakecore.compact.engine.deletion_vectors import counted
from lakecore.compact.engine.work import UnitTable, WorkPick, place_name
from lakecore.compact.kinds.clustered_primary_key.plan import SORTED_LEVEL, FreshPick, Picks
from lakecore.compact.kinds.primary_key.mode import Derivation
from lakecore.compact.kinds.primary_key.unit import AGE_NAME, LookupMerge, MergeUnit
from lakecore.compact.kinds.sort.units import UnitMaker
from lakecore.data_class import dataclass
from lakecore.executor import Executor
from lakecore.metadata.manifest.index_file import DeletionFile
from lakecore.row.sort_rule import SortRule
from lakecore.scan.change_scanner import Deletions
from lakecore.types.datatypes import AtomicType, DataField, TypeRoot

__all__ = ["ClusteredBuilder"]

_AGE_FIELD = DataField(-1, AGE_NAME, AtomicType(TypeRoot.INT, nullable=False))


@dataclass(frozen=True, kw_only=True)
class ClusteredBuilder:
    """This is a builder of the picks that the driver runs. `rule` is the order of rows above level 0;
    `engine` is where units will run.
    """

    table: UnitTable
    rule: SortRule
    file_prefix: str
    engine: Executor
    deletions: Deletions

    def work_picks(self, picks: Picks) -> Sequence[WorkPick]:
        """Return picks of units. Large merges are cut into ranges of the clustering columns, which costs
        reads of samples.
        """
        maker = UnitMaker(
            table=self.table, rule=self.rule, executor=self.engine, prefix=f"{self.file_prefix}-s"
        )
        return (*self._fresh(picks.fresh), *maker.work_picks(picks.sorts))

    def _fresh(self, picks: Sequence[FreshPick]) -> Iterator[WorkPick]:
        """Yield picks of level-0 files. Rule of the format: what was committed later counts, whatever its
        sequence number.
        """
        shape = replace(self.table.shape, sequence=(_AGE_FIELD,), ignore_retracts=False)
        table = replace(self.table, shape=shape)
        for number, pick in enumerate(picks):
            yield self._fresh_pick(pick, table, f"{self.file_prefix}-{number}")

    def _fresh_pick(self, pick: FreshPick, table: UnitTable, prefix: str) -> WorkPick:
        place, reading = pick.place, table.reading
        name = place_name(place, table.schema)
        bucket_dir = reading.bucket_dir(place.partition, place.bucket)
        unit = MergeUnit(
            name=name,
            table=table,
            bucket_dir=bucket_dir,
            runs=tuple((file,) for file in pick.fresh),
            output_level=SORTED_LEVEL,
            drop_deletes=reading.options.marks_replaced_rows,
            file_prefix=prefix,
            tallied=pick.fresh,
            deletions=self._deletions(pick),
            by_level=LookupMerge(
                derivation=Derivation.LOOKUP,
                announces=False,
                rewrites=True,
                top_level=SORTED_LEVEL,
                fresh=len(pick.fresh),
                above=(pick.above,) if pick.above else (),
            ),
            rule=self.rule,
        )
        return WorkPick(
            name=name,
            place=place,
            bucket_dir=bucket_dir,
            reason=f"level 0 is sorted by {', '.join(self.rule.columns)} into level {SORTED_LEVEL}",
            replaced=pick.fresh,
            units=(unit,),
            deletions=tuple(unit.deletions.get(file.file_name) for file in pick.fresh),
            required_files=pick.above,
        )

    def _deletions(self, pick: FreshPick) -> dict[str, DeletionFile]:
        place = pick.place
        deletions = {
            file.file_name: self.deletions.get((place.partition, place.bucket, file.file_name))
            for file in pick.files
        }
        return {name: counted(self.table, vector) for name, vector in deletions.items() if vector is not None}
