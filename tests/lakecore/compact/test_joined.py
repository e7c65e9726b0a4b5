"""Tables with data evolution: which files are joined, that the proof sees every column, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakecore.compact.engine.work import Strategy
from lakecore.compact.kinds.append.plan import JoinRequest
from lakecore.compact.kinds.data_evolution import blob_run
from lakecore.compact.kinds.data_evolution import run as joined_run
from lakecore.compact.kinds.data_evolution.blob_plan import BlobRules
from lakecore.compact.kinds.data_evolution.plan import Columns, plan_ranges
from lakecore.errors import CorruptDataError, ProofError, UnsupportedError
from lakecore.jobs.compact import Job, ProofMode, run
from lakecore.lsm.options import AppendPolicy
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import TableOptions
from lakecore.scan.support import check_compactable, check_writable
from lakecore.types.datatypes import ArrayType, DataField, parse_type
from tests.support.builders import data_file, manifest_entry, table_schema
from tests.support.lake import append_table, live_files, memory_catalog

EVOLVING = {"row_tracking__enabled": "true", "data_evolution__enabled": "true"}
POLICY = AppendPolicy(target_file_size=100, small_file_size=70, min_files=3, open_file_cost=1)


def picks(
    *files: tuple[str, int, int, int],
    strategy: Strategy = Strategy.UNIVERSAL,
    bucket: int = 0,
    both: str = "",
) -> list[str]:
    """Files as (name, first row id, rows, size). `both`: names of those that have column v, which lies apart."""
    entries = [
        manifest_entry(
            replace(data_file(name, rows=rows, size=size, level=int(name in both)), first_row_id=first),
            bucket=bucket,
        )
        for name, first, rows, size in files
    ]
    request = JoinRequest(strategy=strategy, policy=POLICY, ordered=False)
    columns = Columns(
        {"k": 0, "v": 1}, frozenset({1}), lambda file: frozenset({0, *([1] if file.level else [])})
    )
    found = plan_ranges(ManifestEntries.from_rows(entries), request, columns, {})
    assert all(pick.columns == (None if pick.files[0].level else ("k",)) for pick in found)
    return ["".join(file.file_name for file in pick.files) for pick in found]


def test_which_files_are_joined() -> None:
    three = (("c", 20, 10, 9), ("a", 0, 10, 9), ("b", 10, 10, 9))
    assert picks(*three) == ["abc"]
    assert picks(*three[:2]) == picks(*three[:2], strategy=Strategy.FULL) == []  # a gap between them
    assert picks(*three[1:]) == []
    assert picks(*three[1:], strategy=Strategy.FULL) == ["ab"]
    assert picks(
        ("a", 0, 5, 60), ("b", 5, 5, 60), ("c", 10, 5, 60), ("d", 15, 5, 60), strategy=Strategy.FULL
    ) == [
        "ab",
        "cd",
    ]
    assert picks(
        ("a", 0, 9, 90), ("x", 0, 9, 90), ("b", 9, 9, 5), ("y", 9, 9, 5), strategy=Strategy.FULL
    ) == [
        "ax",
        "by",
    ]
    assert picks(("a", 0, 9, 500), strategy=Strategy.FULL) == []
    four = (*three, ("d", 30, 10, 9), ("x.blob", 0, 10, 1), ("y.vector.avro", 30, 10, 1))
    assert picks(*four, strategy=Strategy.FULL) == ["bc"]  # these have no blob or vector files beside them
    four = (
        *four[:5],
        ("y.blob", 10, 9, 1),
        ("z.blob", 19, 1, 1),
        ("u.blob", 20, 10, 1),
        ("v.blob", 30, 10, 1),
    )
    assert picks(*four, strategy=Strategy.FULL) == ["abcd"]
    assert picks(*four, strategy=Strategy.FULL, both="cd") == ["ab", "cd"]


def test_which_blob_files_are_joined() -> None:
    """Those of the same rows, and small neighbours; in rows of several ordinary files where these are joined."""

    def groups(*files: tuple[str, int, int, int, int]) -> list[str]:
        made = [
            replace(data_file(name, rows=rows, size=size, sequence=(0, number)), first_row_id=first)
            for name, first, rows, size, number in files
        ]
        rules = BlobRules(10, frozenset({0, 1}), lambda file: frozenset({"abz".index(file.file_name[0])}))
        return ["".join(file.file_name[1] for file in group) for group in rules.groups(made)]

    assert groups(("a1", 0, 9, 3, 1), ("a2", 9, 3, 7, 1), ("a3", 12, 3, 3, 1), ("a4", 15, 1, 1, 1)) == [
        "12",
        "34",
    ]
    assert (
        groups(("a1", 0, 9, 3, 1), ("a2", 9, 3, 12, 1), ("a3", 12, 3, 3, 1)) == []
    )  # a large one between them
    assert groups(("a1", 0, 9, 3, 1), ("a2", 10, 3, 3, 1), ("b3", 9, 1, 3, 1)) == []  # a gap, another column
    assert groups(("a1", 0, 9, 99, 1), ("a3", 8, 3, 99, 2), ("a2", 8, 1, 99, 1), ("a4", 11, 3, 1, 1)) == [
        "123"
    ]
    assert groups(("z1", 0, 9, 3, 1), ("z2", 9, 9, 3, 1)) == []  # of a column that is gone


@pytest.mark.parametrize("wrong", ["nothing", "places", "value"])
def test_the_proof_sees_what_becomes_of_blobs(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = memory_catalog("evolving-blobs")
    more = {"blob-compaction.enabled": "true"}
    table = append_table(catalog, ("k INT", "b BLOB"), **EVOLVING, **more)
    values = [b"one", None, b"", b"large" * 500_000]
    for _ in range(2):
        table.append(pa.table({"k": pa.array(range(4), pa.int32()), "b": values}))
    table.update_columns(pa.table({"_ROW_ID": [2, 7], "b": [b"two", b"seven"]}))
    before = table.scan().to_arrow()
    inner = blob_run.locate_blobs

    def broken(*arguments: Any) -> Any:
        found = inner(*arguments)
        if wrong == "places":
            return replace(found, owner=found.owner[[0, 2, 1, *range(3, len(found.owner))]])
        if wrong == "value":  # an older one
            return inner(
                *arguments[:2],
                [one for one in arguments[2] if one[1].max_sequence_number < 3],
                *arguments[3:],
            )
        return found

    monkeypatch.setattr(blob_run, "locate_blobs", broken)
    job = Job(table=table.name, strategy=Strategy.FULL)
    if wrong == "nothing":
        assert run(job, catalog).error is None
        assert [(file.first_row_id, file.row_count) for file in live_files(table)] == [(0, 8), (0, 8)]
    else:
        with pytest.raises((ProofError, CorruptDataError)):
            run(job, catalog)
        assert len(live_files(table)) > 5
    assert table.scan().to_arrow() == before


def table_of(rows: int) -> tuple[Any, Any]:
    catalog = memory_catalog("evolving")
    table = append_table(catalog, ("k INT", "v STRING", "w INT"), **EVOLVING)
    for start in range(0, rows, 10):
        keys = pa.array(range(start, start + 10), pa.int32())
        table.append(pa.table({"k": keys, "v": [f"v{k}" for k in range(10)], "w": keys}))
    return catalog, table


@pytest.mark.parametrize("proof", ProofMode)
@pytest.mark.parametrize("wrong", ["nothing", "order", "value", "row"])
def test_the_proof_sees_what_the_join_does(
    wrong: str, proof: ProofMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, table = table_of(40)
    before = table.scan().to_arrow()
    inner = joined_run.read_joined

    def broken(*arguments: Any, **how: Any) -> Any:
        for batch in inner(*arguments, **how):
            if wrong == "order":
                batch = batch.take(pa.array([1, 0, *range(2, batch.num_rows)]))
            elif wrong == "value":
                batch = batch.set_column(0, batch.schema.field(0), pa.array([7] * batch.num_rows, pa.int32()))
            elif wrong == "row":
                batch = batch.slice(1)
            yield batch

    monkeypatch.setattr(joined_run, "read_joined", broken)
    job = Job(table=table.name, strategy=Strategy.FULL, proof=proof)
    if wrong == "nothing":
        assert run(job, catalog).files_out == 1
        assert [file.first_row_id for file in live_files(table)] == [0]
    else:
        with pytest.raises(ProofError):
            run(job, catalog)
        assert len(live_files(table)) == 4
    assert table.scan().to_arrow() == before


def test_what_is_refused() -> None:
    options = {key.replace("__", ".").replace("_", "-"): value for key, value in EVOLVING.items()} | {
        "bucket": "-1"
    }
    blob = parse_type("BLOB")
    for kind, more, problem in (
        (ArrayType(blob), {"blob-as-descriptor": "true"}, "lists or maps of BLOB"),
        (blob, {"blob-external-storage-field": "b"}, "blob-external-storage-field=b"),
    ):
        schema = table_schema("k BIGINT", primary_keys=(), options=options | more)
        schema = replace(schema, fields=(*schema.fields, DataField(1, "b", kind)))
        check_compactable("d.t", schema, TableOptions.from_schema(schema))
        with pytest.raises(UnsupportedError, match=problem):
            check_writable("d.t", schema, TableOptions.from_schema(schema))
    with pytest.raises(UnsupportedError, match=r"deletion-vectors\.enabled=false"):
        table_of(0)[1].delete("k = 1")
