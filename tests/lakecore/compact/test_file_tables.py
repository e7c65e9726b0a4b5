"""The rules for files without a merge by key as text tables: data evolution, blobs, file indexes, sorting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.compact.engine.work import Place, Strategy
from lakecore.compact.kinds.append.plan import JoinPick, JoinRequest
from lakecore.compact.kinds.data_evolution.blob_plan import BlobRules
from lakecore.compact.kinds.data_evolution.plan import Columns, plan_ranges
from lakecore.compact.kinds.file_index.plan import IndexNeed, coverage, file_specs, need_of, pack
from lakecore.compact.kinds.sort.plan import CutPolicy, cuts_of, file_groups, plan_sorts, quantiles, sort_rule
from lakecore.errors import LakeError
from lakecore.index.container import Blob
from lakecore.index.definition import index_specs
from lakecore.lsm.options import AppendPolicy
from lakecore.metadata.manifest.data_file import EMPTY_ROW, DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile, DeletionRange
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.row.sort_rule import OrderStrategy
from tests.support import datadriven
from tests.support.builders import data_file, manifest_entry, table_schema
from tests.support.datadriven import Case

TESTDATA = Path(__file__).parent / "testdata"
COLUMNS = {"k": 0, "v": 1, "photo": 2, "film": 3}
JOIN_POLICY = AppendPolicy(target_file_size=100, small_file_size=70, min_files=3, open_file_cost=1)
MB = 1 << 20


def short(files: Iterable[DataFile]) -> str:
    return " ".join(file.file_name.removesuffix(".parquet") for file in files)


class RangeFiles:
    """Lines: a file, and what differs from `rows=0-9 size=10 columns=k,v age=0 bucket=0`; `rows` are row ids."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.files: list[DataFile] = []
        self.columns: dict[str, frozenset[int]] = {}
        self.places: list[int] = []
        self.deleted: set[str] = set()
        for line in lines:
            name, *pairs = line.split()
            values = dict(pair.split("=") for pair in pairs)
            low, high = map(int, values.get("rows", "0-9").split("-"))
            age = int(values.get("age", "0"))
            name += "" if "." in name else ".parquet"
            made = data_file(
                name, rows=high - low + 1, size=int(values.get("size", "10")), sequence=(age, age)
            )
            self.files.append(replace(made, first_row_id=low))
            self.columns[name] = frozenset(
                COLUMNS[column] for column in values.get("columns", "k,v").split(",")
            )
            self.places.append(int(values.get("bucket", "0")))
            self.deleted |= {name} if "deleted" in values else set()

    def held(self, file: DataFile) -> frozenset[int]:
        return self.columns[file.file_name]

    @property
    def live(self) -> ManifestEntries:
        return ManifestEntries.from_rows([
            manifest_entry(file, bucket=bucket) for file, bucket in zip(self.files, self.places, strict=True)
        ])  # fmt: skip

    @property
    def deletions(self) -> dict[tuple[bytes, int, str], DeletionFile]:
        return {
            (EMPTY_ROW, bucket, file.file_name): DeletionFile(
                "index-0", DeletionRange(file.file_name, 1, 10, 1)
            )
            for file, bucket in zip(self.files, self.places, strict=True)
            if file.file_name in self.deleted
        }


def evolution_answer(case: Case) -> str:
    """Arguments: `dedicated`, the columns that the options put into files of their own; `blobs=joined`."""
    files = RangeFiles(case.input)
    dedicated = frozenset(COLUMNS[name] for name in case.args.get("dedicated", "photo,film").split(","))
    columns = Columns(COLUMNS, dedicated, files.held)
    blobs = BlobRules(20, dedicated, files.held) if case.args.get("blobs") == "joined" else None
    request = JoinRequest(strategy=Strategy(case.command), policy=JOIN_POLICY, ordered=False)
    try:
        found = plan_ranges(files.live, request, columns, files.deletions, blobs)
    except LakeError as err:
        return f"{type(err).__name__}: {err}"
    return "\n".join(map(join_text, found)) or "nothing"


def join_text(pick: JoinPick) -> str:
    parts = []
    if pick.files:
        columns = "all columns" if pick.columns is None else f"columns {' '.join(pick.columns)}"
        parts.append(f"join {short(pick.files)} ({columns})")
    moved = [vector.place.data_file for vector in pick.deletions if vector is not None]
    parts += [f"keep the deletions of {' '.join(moved).replace('.parquet', '')}"] if moved else []
    parts += [f"join {short(group)}" for group in pick.blobs]
    return f"bucket {pick.place.bucket}: {', '.join(parts)}"


def blob_answer(case: Case) -> str:
    """The target size is the argument; the columns photo and film are joined."""
    files = RangeFiles(case.input)
    joined = frozenset(COLUMNS[name] for name in ("photo", "film"))
    rules = BlobRules(int(case.args.get("target", "20")), joined, files.held)
    return "\n".join(f"join {short(group)}" for group in rules.groups(files.files)) or "nothing"


def index_schema(columns: str, options: dict[str, str]) -> TableSchema:
    """Columns as `a:INT,b:STRING`."""
    text = ", ".join(column.replace(":", " ") for column in columns.split(","))
    return table_schema(text, primary_keys=(), options={"bucket": "-1", **options})


def index_answer(case: Case) -> str:
    """Arguments: columns, those of older files, options. Lines: a file, its rows, and the indexes that it has."""
    match case.command:
        case "units":
            return units_text(case)
    columns = case.args.get("columns", "a:INT,b:STRING")
    options = {key: value for key, value in case.args.items() if key.startswith("file-index.")}
    schema = index_schema(columns, options)
    named = file_specs(index_specs(schema), schema, index_schema(case.args.get("older", columns), {}))
    place, found, needs = Place(EMPTY_ROW, -1, -1), [], []
    for line in case.input:
        name, *words = line.split()
        rows = next((int(word[5:]) for word in words if word.startswith("rows=")), 10)
        head: dict[str, dict[str, Blob]] = {}
        for word in words:
            if ":" in word:
                column, kind, length = word.split(":")
                head.setdefault(column, {})[kind] = Blob(0, int(length))
        file = data_file(name, rows=rows)
        needs.append(need_of(place, file, None, head, [stored for _, stored in named]))
        found.append((file, head, named))
    if case.command == "coverage":
        return "\n".join(
            f"{one.index} {one.type}{'' if one.in_options else ' (not requested)'}: {one.files} files, {one.rows} rows, "
            f"{one.bytes} bytes; missing in {one.files_lacking} files, {one.rows_lacking} rows"
            for one in coverage(found, index_specs(schema))
        )
    return "\n".join(map(need_text, needs))


def need_text(need: IndexNeed) -> str:
    parts = [f"build {spec.name} {spec.type.value}" for spec in need.missing]
    parts += [f"reuse {name} {kind}" for name, kind in need.present]
    parts += [f"drop {name} {kind}" for name, kind in need.stale]
    return f"{need.file.file_name}: {', '.join(parts) or 'nothing'}" + (
        "" if need.is_incomplete else " (done)"
    )


def units_text(case: Case) -> str:
    """Lines: how many files, of how many megabytes, of which bucket; `drop` where indexes are only removed."""
    schema = index_schema("a:INT", {"file-index.bitmap.columns": "a"})
    specs = [stored for _, stored in file_specs(index_specs(schema), schema, schema)]
    needs = []
    for line in case.input:
        count, size, bucket, *drop = line.split()
        head = {"a": {"bitmap": Blob(0, 1)}, "b": {"bsi": Blob(0, 1)}} if drop else {}
        file = data_file("f", size=int(size.removesuffix("MB")) * MB)
        needs += [need_of(Place(EMPTY_ROW, int(bucket), 2), file, None, head, specs)] * int(count)
    return "\n".join(
        f"bucket {unit[0].place.bucket}: {len(unit)} files, "
        f"{sum(need.file.file_size for need in unit) // MB} MB"
        for unit in pack(needs)
    )


def sort_answer(case: Case) -> str:
    match case.command:
        case "plan":
            return sort_plan_text(case)
        case "ranges":
            values = {key: int(value) for key, value in case.args.items()}
            policy = CutPolicy(parallelism=values["cores"], target_file_size=100)
            return str(cuts_of(values["size"], values.get("table", values["size"]), policy))
        case "bounds":
            rows = [(int(word),) for word in case.input[0].split()] if case.input else []
            return " ".join(str(bound[0]) for bound in quantiles(rows, int(case.args["ranges"]))) or "none"
        case "groups":
            files = [data_file(str(at), size=int(size)) for at, size in enumerate(case.input[0].split())]
            found = file_groups(files, int(case.args["count"]))
            return " | ".join(" ".join(str(files[at].file_size) for at in group) for group in found)
    options = {key: value for key, value in case.args.items() if key not in ("strategy", "by", "keys")}
    keys = tuple(case.args["keys"].split(",")) if "keys" in case.args else ()
    schema = table_schema(
        "a INT NOT NULL, b STRING, blob BYTES, v VARIANT, dt STRING",
        primary_keys=keys,
        partition_keys=("dt",),
        options={"bucket": "-1", **options},
    )
    order = tuple(case.args["by"].split(",")) if "by" in case.args else ()
    try:
        strategy = OrderStrategy(case.args.get("strategy", "order"))
        rule = sort_rule("d.t", schema, TableOptions.from_schema(schema), strategy, order)
    except LakeError as err:
        return f"{type(err).__name__}: {err}"
    return f"{rule.strategy.value} by {', '.join(rule.columns)}; {rule.var_bytes} bytes of a string count on a curve"


def sort_plan_text(case: Case) -> str:
    """Lines: a file, its partition, size and first sequence number; `done` names files of the run so far."""
    entries = []
    for line in case.input:
        name, *pairs = line.split()
        values = {key: int(value) for key, value in (pair.split("=") for pair in pairs)}
        number = values.get("sequence", 0)
        file = data_file(name, size=values.get("size", 100), sequence=(number, number))
        partition = EMPTY_ROW[:-1] + bytes([values.get("partition", 0)])
        entries.append(manifest_entry(file, partition=partition, bucket=-1))
    policy = CutPolicy(parallelism=int(case.args.get("cores", "1")), target_file_size=100)
    done = case.args.get("done", "").split(",")
    picks = plan_sorts(ManifestEntries.from_rows(entries), {}, policy, done)
    return (
        "\n".join(
            f"partition {one.place.partition[-1]}: {short(one.files)} in {one.cuts} ranges" for one in picks
        )
        or "nothing"
    )


TABLES = {
    "data_evolution": evolution_answer,
    "blob_files": blob_answer,
    "file_indexes": index_answer,
    "sorting": sort_answer,
}


@pytest.mark.parametrize("name", TABLES)
def test_rules_of_files(name: str, rewrite: bool) -> None:
    datadriven.check(TESTDATA / f"{name}.txt", TABLES[name], rewrite)
