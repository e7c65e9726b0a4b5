"""How a pick that looks rows up, or announces changes, becomes units, as a text table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from lakecore.compact.engine.work import Strategy, UnitTable
from lakecore.compact.kinds.primary_key.lookup.pick import LeveledPick
from lakecore.compact.kinds.primary_key.mode import Derivation, MergeMode
from lakecore.compact.kinds.primary_key.plan import PickRequest, plan_picks
from lakecore.compact.kinds.primary_key.unit import MergeUnit
from lakecore.lsm.options import TreePolicy
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.schema import TableSchema
from lakecore.verify.digest.shape import ProofMode, shape_of
from tests.support import datadriven
from tests.support.builders import data_file, manifest_entry
from tests.support.datadriven import Case
from tests.support.lake import key_table, memory_catalog

TESTDATA = Path(__file__).parent / "testdata"


def names(files: Iterable[DataFile]) -> str:
    return " ".join(file.file_name.removesuffix(".parquet") for file in files)


def unit_table(options: dict[str, str]) -> UnitTable:
    """What units know of an empty table with these options, whose trigger is three sorted runs."""
    raw = {"num-sorted-run.compaction-trigger": "3", **options}
    table = key_table(memory_catalog("lookup-tables"), ("k BIGINT NOT NULL", "v INT"), **raw)
    reading = table._read_context()
    shape = shape_of(reading.schema, reading.options, ProofMode.KEYS, (), "")
    return UnitTable(reading=reading, shape=shape, schemas={0: reading.schema}, clock=table._stores.clock)


def entries_of(lines: Iterable[str], schema: TableSchema) -> ManifestEntries:
    """Lines: a file, and what differs from `size=100 level=0 keys=0-9 deletes=0`, the oldest first."""
    rows = []
    for number, line in enumerate(lines):
        name, *pairs = line.split()
        values = dict(pair.split("=") for pair in pairs)
        low, high = map(int, values.get("keys", "0-9").split("-"))
        made = data_file(
            f"{name}.parquet",
            schema=schema,
            keys=(low, high),
            level=int(values.get("level", "0")),
            size=int(values.get("size", "100")),
            sequence=(number, number),
        )
        rows.append(manifest_entry(replace(made, delete_row_count=int(values.get("deletes", "0")))))
    return ManifestEntries.from_rows(rows)


def lookup_answer(case: Case) -> str:
    """Arguments are options of the table."""
    table = unit_table(dict(case.args))
    options, key_of = table.reading.options, key_order(table.schema.key_type)
    request = PickRequest(
        strategy=Strategy(case.command),
        policy=TreePolicy.from_options(table.schema.options, 100, lookup=options.needs_lookup),
        key_of=key_of,
        now_ms=0,
        mode=MergeMode.of(options, lambda _: "parquet"),
    )
    lines = []
    for pick in plan_picks(entries_of(case.input, table.schema), request):
        if pick.derivation is Derivation.NONE:
            lines.append("merge without lookups and changes")
            continue
        model = MergeUnit(
            name="",
            table=table,
            bucket_dir="",
            runs=(),
            output_level=pick.output_level,
            drop_deletes=pick.drop_deletes,
            file_prefix="",
            tallied=(),
        )
        found = LeveledPick(pick, model)
        lines += [unit_text(unit) for unit in found.units()]
        lines.append(f"required besides: {names(found.required_files) or 'none'}")
    return "\n".join(lines) or "nothing"


def unit_text(unit: MergeUnit) -> str:
    levels = unit.by_level
    assert levels is not None
    runs = [names(run) for run in unit.runs]
    split = len(runs) - levels.fresh
    older, fresh = " | ".join(runs[:split]), " | ".join(runs[split:])
    parts = [f"{'merge' if levels.rewrites else 'read'} level 0: {fresh or 'none'}"]
    parts += [f"with {older}"] if older else []
    parts += [f"look up in {' | '.join(map(names, levels.above))}"] if levels.above else []
    parts += ["write changes"] if levels.announces else []
    parts += ["drop deletes"] if unit.drop_deletes else []
    return ", ".join(parts)


def test_units_of_lookups(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "lookups.txt", lookup_answer, rewrite)
