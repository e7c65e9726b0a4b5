"""The account of merges that look rows up: changes, looked-up rows and marks, right and wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lakecore.errors import ProofError
from lakecore.metadata.options import TableOptions
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.digest import Tally
from lakecore.verify.digest.shape import ProofMode
from lakecore.verify.proof.pick_proof import (
    PickProof,
    UnitProof,
    check_changelog,
    check_outputs,
    prove_pick,
    tally_input,
)
from lakecore.verify.recompute.account import MergeCertifier
from lakecore.verify.recompute.evidence import Fate, FoldedWindow, MergeEvidence
from lakecore.verify.rules.merge_rules import read_merge_rules
from lakecore.verify.sample.lookups import LookupFile, check_marks, search_keys, tally_positions
from tests.support.small_fold import Row, Rows, SmallFold
from tests.support.small_merge import Hooks, SmallTable

KEYS, FULL = ProofMode.KEYS, ProofMode.FULL
BOTH = (KEYS, FULL)
MODES = pytest.mark.parametrize("mode", BOTH)
TYPES = {"id": pa.int64(), "n": pa.int64(), "s": pa.string()}
COLUMNS = {"id": "BIGINT NOT NULL", "n": "BIGINT", "s": "STRING"}
LOOKUP = {"changelog-producer": "lookup"}
FULL_COMPACTION = {"changelog-producer": "full-compaction"}
SUMS = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
QUIET = {"changelog-producer.row-deduplicate": "true"}
CASES = {
    "deduplicate": LOOKUP,
    "deduplicate by a field": {**LOOKUP, "sequence.field": "n"},
    "deduplicate, only changes": {**LOOKUP, **QUIET},
    "sums": {**LOOKUP, **SUMS},
    "first-row": {**LOOKUP, "merge-engine": "first-row"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "full compaction": FULL_COMPACTION,
    "full compaction of sums, only changes": {**FULL_COMPACTION, **SUMS, **QUIET},
}
LEVELS = (0, 0, 3, 5)
"""Levels of the four runs; the last one lies outside the pick, but for a full compaction."""


@dataclass
class Faults:
    """Where faults go in: the changelog, the positions looked up, the rows looked up, what the certifier sees."""

    changes: Callable[[Rows], Rows] = lambda rows: rows
    positions: Callable[[list[int]], list[int]] = lambda positions: positions
    old: Callable[[Row], Row | None] = lambda row: row
    same: Callable[[Row, Row], bool] = lambda old, new: all(old[name] == new[name] for name in COLUMNS)
    deleted: BitMap = field(default_factory=BitMap)
    searched: Callable[[Tally], Tally | None] = lambda tally: tally


@dataclass
class LookupMerge:
    """One merge of runs on levels: per key, the nearest old row takes part."""

    options: dict[str, str]
    mode: ProofMode
    faults: Faults

    def __post_init__(self) -> None:
        self.fold = SmallFold(SmallTable(COLUMNS, ("id",), self.options), types=TYPES)
        self.full = self.options.get("changelog-producer") == "full-compaction"
        self.first_row = self.options.get("merge-engine") == "first-row"
        self.results: Rows = []
        self.changes: Rows = []
        self.positions: list[int] = []
        self.rows: list[tuple[Row, int, Fate, bool]] = []
        self.places: list[int] = []
        self.unchanged: list[int] = []

    def prove(self, seed: int = 1) -> PickProof:
        runs = random_runs(seed, kinds=(0, 2) if self.first_row else (0, 0, 2, 3))
        files = [self.fold.write(rows, level=level) for rows, level in zip(runs, LEVELS, strict=True)]
        picked = len(runs) if self.full else len(runs) - 1
        keys = sorted({row["id"] for run in runs[:picked] for row in run})
        for place, key in enumerate(keys):
            self._merge(place, key, runs, picked)
        context = self.fold.table.context(self.mode)
        evidence = self._certify()
        outputs = check_outputs(context, "unit 7", self._write(self.results, 4))
        changes = check_changelog(context, "unit 7", self._write(self.faults.changes(self.changes), 0))
        above = LookupFile(files[-1], self.faults.deleted or None)
        positions = BitMap(self.faults.positions(self.positions))
        marks = check_marks("unit 7", {"f": BitMap()}, {"f": positions}).get("f", BitMap())
        unit = UnitProof(
            unit="unit 7",
            outputs=outputs,
            evidence=evidence,
            changes=changes,
            looked_up=tally_positions(context, "unit 7", above, marks),
            searched=self._search(context, above, evidence),
        )
        inputs = [tally_input(context, "unit 7", file) for file in files[:picked]]
        return prove_pick(context.shape, "unit 7", inputs, [unit])

    def _search(self, context: Any, above: LookupFile, evidence: MergeEvidence) -> Tally | None:
        if not evidence.key_hashes:
            return None
        found = search_keys(context, [[], [above]], np.frombuffer(evidence.key_hashes, np.uint64))
        return self.faults.searched(found)

    def _certify(self) -> MergeEvidence:
        schema = self.fold.table.schema
        rules = read_merge_rules(schema, TableOptions.from_schema(schema), 5 if self.full else 4, 5)
        shape = self.fold.table.shape(self.mode)
        certifier = MergeCertifier("unit 7", shape, rules, may_drop=self.full)
        certifier.window(
            FoldedWindow(
                rows=self.fold.batch([row for row, *_ in self.rows]),
                levels=np.array([level for _, level, _, _ in self.rows], np.int8),
                fates=np.array([fate for _, _, fate, _ in self.rows], np.int8),
                outside=np.array([outside for *_, outside in self.rows], bool),
                results=self.fold.batch(self.results),
                groups=np.array(self.places, np.int64),
                unchanged=np.array(self.unchanged, np.int64),
            )
        )
        return certifier.evidence

    def _write(self, rows: Rows, level: int) -> list[StoredFile]:
        return [self.fold.write(rows, Hooks(), level)] if rows else []

    def _merge(self, place: int, key: int, runs: list[Rows], picked: int) -> None:
        found = [
            (row, level, at >= picked, number)
            for at, (run, level) in enumerate(zip(runs, LEVELS, strict=True))
            for number, row in enumerate(run)
            if row["id"] == key
        ]
        inside = [(row, level, False) for row, level, outside, _ in found if not outside]
        if not any(level > 0 for _, level, _ in inside) and any(level == 0 for _, level, _ in inside):
            for row, level, outside, number in found:
                old = self.faults.old(row) if outside else None
                if old is not None:
                    inside.append((old, level, True))
                    self.positions.append(number)
        inside.sort(key=lambda entry: self._order(entry[0]))
        high = [level for _, level, _ in inside if level > 0]
        nearest = min(high, default=0)
        if self.full:
            nearest = max(high, default=0)
        counted = [entry for entry in inside if self.full or entry[1] in (0, nearest)]
        for entry in inside:
            fate = Fate.FOLDED if entry in counted else Fate.SUPERSEDED
            self.rows.append((entry[0], entry[1], fate, entry[2]))
        result = self._fold([row for row, _, _ in counted])
        self._announce(place, inside, [e for e in counted if e[1] == nearest > 0], result)

    def _order(self, row: Row) -> Any:
        by = self.options.get("sequence.field")
        value = row[by] if by else None
        return (value is not None, value or 0, row["_SEQUENCE_NUMBER"])

    def _fold(self, rows: Rows) -> Row:
        if len(rows) == 1 and not self.full and "aggregation" in self.options.values():
            return self.fold._aggregate(rows)
        made = self.fold._fold(rows)
        assert made is not None
        return made

    def _announce(self, place: int, inside: list[Any], old: list[Any], result: Row) -> None:
        known = self.first_row and any(outside for _, _, outside in inside)
        if not known and not (self.full and result["_VALUE_KIND"] == 3):
            self.results.append(result)
            self.places.append(place)
        if "changelog-producer" not in self.options:
            return
        if self.first_row:
            if not old and any(level == 0 for _, level, _ in inside):
                self.changes.append(result)
            return
        if self.full:
            old = [entry for entry in old if entry[1] == 5]
            changed = len(inside) > 1 or not old
        else:
            changed = any(level == 0 for _, level, _ in inside)
        before = [row for row, _, _ in old if row["_VALUE_KIND"] not in (1, 3)]
        after = [result] if result["_VALUE_KIND"] not in (1, 3) else []
        if not changed or not (before or after):
            return
        quiet = QUIET.items() <= self.options.items()
        if quiet and before and after and self.faults.same(before[0], result):
            self.unchanged.append(place)
            return
        self.changes += [{**row, "_VALUE_KIND": 1 if after else 3} for row in before]
        self.changes += [{**row, "_VALUE_KIND": 2 if before else 0} for row in after]


def random_runs(seed: int, kinds: tuple[int, ...]) -> list[Rows]:
    """Runs in the order of `LEVELS`, newest first; older rows have lower sequence numbers."""
    dice = random.Random(seed)
    runs = []
    for number, level in enumerate(LEVELS):
        ids = sorted(dice.sample(range(40), 20))
        of_level = kinds if level < 5 else (0,)
        runs.append(
            [
                {
                    "id": key,
                    "n": dice.choice((None, 1, 2)),
                    "s": dice.choice("ab"),
                    "_SEQUENCE_NUMBER": (len(LEVELS) - number) * 100 + place,
                    "_VALUE_KIND": dice.choice(of_level),
                }
                for place, key in enumerate(ids)
            ]
        )
    return runs


@MODES
@pytest.mark.parametrize("name", CASES)
def test_a_right_merge_is_proven(name: str, mode: ProofMode) -> None:
    options = CASES[name]
    for seed in range(4):
        proof = LookupMerge(options, mode, Faults()).prove(seed)
        assert proof.fold is not None
        announces = "changelog-producer" in options
        assert (proof.fold.changes.rows > 0) == announces == ("in the changelog" in str(proof))
        assert (proof.fold.outside.rows > 0) == ("full compaction" not in name)
        assert bool(proof.fold.key_hashes) == (mode is FULL and "full compaction" not in name)


def change(at: int, **values: Any) -> Callable[[Rows], Rows]:
    return lambda rows: [*rows[:at], {**rows[at], **values}, *rows[at + 1 :]]


FAULTS: dict[str, tuple[str, Faults, tuple[ProofMode, ...]]] = {
    "a change is skipped": ("deduplicate", Faults(changes=lambda rows: rows[1:]), BOTH),
    "a change is announced twice": ("deduplicate", Faults(changes=lambda rows: [rows[0], *rows]), BOTH),
    "a change has another kind": ("sums", Faults(changes=change(0, _VALUE_KIND=3)), BOTH),
    "a change has another value": ("sums", Faults(changes=change(0, n=99)), (FULL,)),
    "a new key is not announced": ("first-row", Faults(changes=lambda rows: rows[:-1]), BOTH),
    "a full compaction skips a change": ("full compaction", Faults(changes=lambda rows: rows[2:]), BOTH),
    "a position is wrong": ("deduplicate", Faults(positions=lambda found: [found[0] + 1, *found[1:]]), BOTH),
    "a position is missing": ("deletion vectors", Faults(positions=lambda found: found[1:]), BOTH),
    "a position too many": (
        "deletion vectors",
        Faults(positions=lambda found: [*found, *(set(range(20)) - set(found))][: len(found) + 1]),
        BOTH,
    ),
    "a position beyond the file": ("deletion vectors", Faults(positions=lambda found: [*found, 20]), BOTH),
    "an old row is made up": ("deduplicate", Faults(old=lambda row: {**row, "n": 77}), (FULL,)),
    "an old row is another": (
        "deduplicate",
        Faults(old=lambda row: {**row, "_SEQUENCE_NUMBER": row["_SEQUENCE_NUMBER"] + 50}),
        BOTH,
    ),
    "an old row is overlooked": (
        "deduplicate",
        Faults(old=lambda row: None if row["id"] % 2 else row),
        (FULL,),
    ),
    "an old row is overlooked, and the mark with it": (
        "deletion vectors",
        Faults(old=lambda row: None if row["id"] % 2 else row),
        (FULL,),
    ),
    "a deleted row is looked up": ("deduplicate", Faults(deleted=BitMap(range(20))), BOTH),
    "nobody searched": ("deletion vectors", Faults(searched=lambda found: None), (FULL,)),
    "rows that stayed the same are announced": (
        "deduplicate, only changes",
        Faults(same=lambda old, new: False),
        (FULL,),
    ),
    "changes are taken for none": ("deduplicate, only changes", Faults(same=lambda old, new: True), (FULL,)),
}


@MODES
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused_by_the_mode_that_claims_it(fault: str, mode: ProofMode) -> None:
    name, faults, modes = FAULTS[fault]
    merge = LookupMerge(CASES[name], mode, replace(faults))
    if mode not in modes:
        assert merge.prove().fold is not None
        return
    with pytest.raises(ProofError) as caught:
        merge.prove()
    assert caught.value.unit == "unit 7"


def test_marks_are_never_taken_back() -> None:
    with pytest.raises(ProofError, match="live again"):
        check_marks("u", {"f": BitMap([1, 2])}, {"f": BitMap([2, 3])})
    assert check_marks("u", {"f": BitMap([1])}, {"f": BitMap([1, 3]), "g": BitMap([0])}) == {
        "f": BitMap([3]),
        "g": BitMap([0]),
    }
