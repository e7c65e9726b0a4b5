"""Postponed rows that are replayed, merged or announced wrong: the default proof and the full one refuse them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import lakecore.compact.kinds.postpone.apply as apply
import lakecore.compact.kinds.postpone.plan as plans
import lakecore.compact.kinds.postpone.run as units
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import ProofError
from lakecore.jobs import compact
from lakecore.jobs.compact import ProofMode, Strategy
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.table import Table
from lakecore.verify.rules.replay_order import check_waiting, replay_order
from lakecore.write.files.rolling import RollingWriter
from lakecore.write.rows.incoming import Rows
from tests.support.builders import data_file
from tests.support.lake import key_table, memory_catalog, paths_of, put, rows_of

TABLES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "a sequence field": {"sequence__field": "n"},
    "partial-update": {"merge_engine": "partial-update"},
    "aggregation": {"merge_engine": "aggregation", "fields__n__aggregate_function": "sum"},
    "first-row": {"merge_engine": "first-row"},
    "by snapshots": {"sequence__snapshot_ordering": "true"},
}
MERGED = ("a sequence field", "partial-update", "aggregation", "first-row")
MODES = [ProofMode.SAMPLED, ProofMode.FULL]


def waiting(kind: str, **options: str) -> tuple[FilesystemCatalog, Table]:
    """Three postponed files; each has a part of the keys of those before it, with other values."""
    catalog = memory_catalog("postponed-proof")
    table = key_table(
        catalog, ("k INT", "n BIGINT", "s STRING"), bucket="-2", postpone__default_bucket_num="2",
        **TABLES[kind], **options,
    )  # fmt: skip
    later = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    for start in (0, 100, 50):
        catalog.clock.sleep(1)
        put(later, [{"k": k, "n": (k + start) % 7, "s": f"{k}.{start}"} for k in range(start, start + 200)])
    return catalog, table


def run(catalog: FilesystemCatalog, **job: Any) -> compact.Report:
    return compact.run(compact.Job(table="d.k", strategy=Strategy.UNIVERSAL, **job), catalog)


def newest_first(file: DataFile, *, snapshot_ordering: bool) -> Any:
    number = file.min_sequence_number if snapshot_ordering else 0
    return -number, -(file.creation_time or 0)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("proof", MODES)
def test_files_replayed_in_another_order_are_refused(
    kind: str, proof: ProofMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, table = waiting(kind)
    before = paths_of(table)
    with monkeypatch.context() as patched:
        patched.setattr(plans, "_age", newest_first)
        with pytest.raises(ProofError):
            run(catalog, proof=proof)
    assert paths_of(table) == before
    assert run(catalog, proof=proof).rows_in >= 600


def spoilt(
    change: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> Callable[[RollingWriter, pa.RecordBatch], None]:
    right = RollingWriter.write
    return lambda self, batch: right(self, change(batch))


def other_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    texts = batch.column("s")
    return with_column(batch, "s", pa.concat_arrays([texts.slice(1), texts.slice(0, 1)]))


def later_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    numbers = batch.column("_SEQUENCE_NUMBER").to_numpy()
    return with_column(batch, "_SEQUENCE_NUMBER", pa.array(numbers + 1000))


def retracted(batch: pa.RecordBatch) -> pa.RecordBatch:
    return with_column(batch, "_VALUE_KIND", pa.array([3] * batch.num_rows, pa.int8()))


def with_column(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    place = batch.schema.get_field_index(name)
    return batch.set_column(place, batch.schema.field(place), values)


@pytest.mark.parametrize("kind", TABLES)
def test_rows_written_wrong_are_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, table = waiting(kind)
    before = paths_of(table)
    for change in (other_texts, later_numbers, retracted):
        with monkeypatch.context() as patched:
            patched.setattr(RollingWriter, "write", spoilt(change))
            with pytest.raises(ProofError):
                run(catalog)
        assert paths_of(table) == before, change
    report = run(catalog)
    sampled = "every column was compared in a sample of" in report.proof.split("; sampled proof")[0]
    assert sampled == (kind in MERGED)


@pytest.mark.parametrize("kind", ["deduplicate", "aggregation"])
@pytest.mark.parametrize("change", [other_texts, retracted, later_numbers, lambda batch: batch.slice(1)],
                         ids=["texts", "kinds", "numbers", "a line less"])  # fmt: skip
def test_a_changelog_that_lacks_rows_is_refused(
    kind: str, change: Callable[[pa.RecordBatch], pa.RecordBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the changelog of the rows is spoilt: the new files are right."""
    catalog, table = waiting(kind, changelog_producer="input")
    before, right = paths_of(table), RollingWriter.write

    def wrong(self: RollingWriter, batch: pa.RecordBatch) -> None:
        right(self, change(batch) if self._spec.changelog else batch)

    with monkeypatch.context() as patched:
        patched.setattr(RollingWriter, "write", wrong)
        with pytest.raises(ProofError, match="its changelog must hold"):
            run(catalog)
    assert paths_of(table) == before
    run(catalog)


def test_a_file_that_is_left_behind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows would be replayed after newer ones."""
    catalog, table = waiting("deduplicate")
    right = plans.plan_partitions

    def wrong(*args: Any, **kwargs: Any) -> Any:
        return tuple(replace(one, files=one.files[1:]) for one in right(*args, **kwargs))

    with monkeypatch.context() as patched:
        patched.setattr(apply, "plan_partitions", wrong)
        with pytest.raises(ProofError, match="is not replayed with the others"):
            run(catalog)
    run(catalog)
    assert {k: s for k, _, s in rows_of(table)}[60] == "60.50"


@pytest.mark.parametrize("kind", MERGED)
def test_a_key_is_written_once_however_small_the_buffer_is(kind: str) -> None:
    """Found with this test: two rows of one key in two files were refused, and the table was put on hold."""
    catalog, table = waiting(kind, write_buffer_size="2 kb")
    assert "600 postponed rows = 300 keys" in run(catalog).proof
    catalog, whole = waiting(kind)
    run(catalog)
    assert rows_of(table) == rows_of(whole)


def test_a_sample_is_taken_again_where_the_first_keys_have_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, table = waiting("aggregation")
    later = table.with_options({"postpone.batch-write-fixed-bucket": "false"})
    put(later, [{"k": 7, "n": 1, "s": "hot"} for _ in range(9000)])
    for seed in range(6):
        with monkeypatch.context() as patched:
            patched.setattr(units, "_postponed_rows", halves(units._postponed_rows))
            with pytest.raises(ProofError):
                run(catalog, proof_seed=str(seed))
    report = run(catalog)
    (rows,) = [int(text.split(" rows")[0]) for text in report.proof.split("in a sample of ")[1:2]]
    assert rows * 16 >= 9600


def halves(right: Callable[..., Iterator[Rows]]) -> Callable[..., Iterator[Rows]]:
    """The sums of key 7 are wrong, and nothing else."""

    def wrong(*args: Any) -> Iterator[Rows]:
        for rows in right(*args):
            numbers = [
                0 if k == 7 else n
                for k, n in zip(*map(pa.Array.to_pylist, rows.batch.columns[:2]), strict=True)
            ]
            yield Rows(with_column(rows.batch, "n", pa.array(numbers, pa.int64())), rows.kinds)

    return wrong


def named(name: str, created: int, number: int = 0) -> DataFile:
    return replace(data_file(name), creation_time=created, min_sequence_number=number)


def test_the_order_of_files_is_found_anew() -> None:
    files = [
        named("data--u-x-s-7-w-u-10.avro", 5, 1), named("data--u-x-s-7-w-u-9.avro", 5, 2),
        named("data--u--s-5--s-3-w-u-0.avro", 5, 3), named("data--u-y-s-9-w-u-0.avro", 4, 4), named("a.avro", 6, 0),
    ]  # fmt: skip
    assert [files.index(file) for file in replay_order(files, snapshot_ordering=False)] == [3, 2, 1, 0, 4]
    assert [files.index(file) for file in replay_order(files, snapshot_ordering=True)] == [4, 0, 1, 2, 3]
    assert replay_order(reversed(files), snapshot_ordering=False) == replay_order(
        files, snapshot_ordering=False
    )


def test_just_the_waiting_files_are_replayed() -> None:
    one, two = named("a", 1), named("b", 2)
    check_waiting("p", [one, two], [two, one])
    for files, problem in (([one], "b has postponed rows too"), ([one, two, named("c", 3)], "c is replayed, but"),
                           ([one, two, two], "replayed twice")):  # fmt: skip
        with pytest.raises(ProofError, match=problem):
            check_waiting("p", files, [one, two])
