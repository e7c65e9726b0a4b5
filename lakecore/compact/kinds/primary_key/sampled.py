"""This module has a unit as the sampled proof of its merge sees it: its files, and the rules of its last
pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyroaring import BitMap

from lakecore.compact.kinds.primary_key.inputs import UnitInputs
from lakecore.compact.kinds.primary_key.mode import Derivation
from lakecore.compact.kinds.primary_key.unit import MergeUnit, deleted_rows, stored
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.verify.rules.merge_rules import ChangeSource, MergeRules, read_merge_rules
from lakecore.verify.sample.lookups import LookupFile
from lakecore.verify.sample.merge_sample import MergeSample

__all__ = ["merge_sample"]


def merge_sample(
    unit: MergeUnit,
    inputs: UnitInputs,
    files: Sequence[DataFile],
    changelog: Sequence[DataFile] = (),
    looked_up: Mapping[str, BitMap] | None = None,
) -> MergeSample:
    """Return the sample of a merge. `inputs` are as the merge read them; `files` and `changelog` are what it
    wrote; `looked_up` are the positions of the rows that it found in files above, by name of the file.
    """
    by_level = unit.by_level
    moves = by_level is not None and not by_level.rewrites
    return MergeSample(
        runs=[[_file(unit, file) for file in run] for run in unit.runs],
        rows=inputs.rows_in,
        outputs=None if moves else [stored(unit, file) for file in files],
        changelog=[stored(unit, file) for file in changelog],
        above=[[_file(unit, file) for file in level] for level in by_level.above] if by_level else (),
        looked_up=looked_up or {},
        rules=_rules(unit, moves=moves),
        nearest=by_level is not None and by_level.derivation is not Derivation.FULL,
        may_drop=unit.licensed,
        now_ms=inputs.now_ms,
        cut=unit.bounds is not None,
    )


def _rules(unit: MergeUnit, *, moves: bool) -> MergeRules:
    """Return the rules of the merge. Rows of a file that only moves never expire."""
    schema, options, by_level = unit.table.schema, unit.table.reading.options, unit.by_level
    if by_level is None:
        return replace(read_merge_rules(schema, options), changes=ChangeSource.NONE)
    rules = read_merge_rules(schema, options, unit.output_level, by_level.top_level)
    needs_lookup = by_level.derivation is Derivation.LOOKUP and by_level.fresh > 0
    return replace(rules, needs_lookup=needs_lookup, expire_column=None if moves else rules.expire_column)


def _file(unit: MergeUnit, file: DataFile) -> LookupFile:
    return LookupFile(stored(unit, file), deleted_rows(unit, file))
