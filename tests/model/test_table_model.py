"""Random writes, overwrites, compactions and reads, compared with plain dicts after every step.

The model keeps what a table means: winner per key by sequence field (nulls lowest), then by time; one
state per snapshot. fsck looks at the result of every run.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.fs.memory import MemoryFileIO
from lakecore.jobs import compact
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck

_numbers = itertools.count()

KEYS = st.integers(0, 12)
PARTITIONS = st.sampled_from(["a", "b", ""])
KINDS = st.sampled_from(["+I", "+I", "+I", "+U", "-U", "-D"])
SEQUENCES = st.one_of(st.none(), st.integers(-2, 3))
STRATEGIES = st.sampled_from(list(compact.Strategy))
FORMATS = st.sampled_from(["parquet", "avro", "orc"])
BUFFERS = st.sampled_from(["1 b", "256 mb"])


def fresh_catalog() -> FilesystemCatalog:
    name = f"model-{next(_numbers)}"
    MemoryFileIO(name).clear()
    return load_catalog(f"memory://{name}/wh")


class _Machine(RuleBasedStateMachine):
    """What both kinds of tables have in common: a table and the expected rows of each of its snapshots."""

    table: Table

    def __init__(self) -> None:
        super().__init__()
        self.catalog = fresh_catalog()
        self.states: dict[int, Any] = {}
        self.state: Any = None

    def remember(self) -> None:
        """The latest snapshot holds the current state, and so do those before it that are new (compactions)."""
        latest = self.table._stores.snapshots.latest_id()
        if latest is not None:
            for number in range(max(self.states, default=0) + 1, latest + 1):
                self.states[number] = self.copied()

    def copied(self) -> Any:
        raise AssertionError("each machine says how")

    def expected(self, state: Any) -> Any:
        raise AssertionError("each machine says how")

    def actual(self, **at: Any) -> Any:
        raise AssertionError("each machine says how")

    @rule(strategy=STRATEGIES)
    def compact(self, strategy: compact.Strategy) -> None:
        report = compact.run(compact.Job(table=self.table.name, strategy=strategy), self.catalog)
        assert report.error is None
        self.remember()

    @rule(data=st.data())
    def travel(self, data: st.DataObject) -> None:
        if self.states:
            number = data.draw(st.sampled_from(sorted(self.states)))
            assert self.actual(snapshot=number) == self.expected(self.states[number])

    def teardown(self) -> None:
        if hasattr(self, "table"):
            report = fsck(
                self.table._stores.file_io, self.table._stores.paths, now_ms=0, deep=True, read_data=True
            )
            assert report.findings == ()

    @invariant()
    def latest_state(self) -> None:
        if hasattr(self, "table"):
            assert self.actual() == self.expected(self.state)


class KeyTable(_Machine):
    """Upserts with kinds and sequence fields into buckets and partitions."""

    @initialize(
        sequenced=st.booleans(),
        thin=st.booleans(),
        buckets=st.integers(1, 3),
        kind=FORMATS,
        buffer=BUFFERS,
        producer=st.sampled_from(["none", "input"]),
    )
    def create(
        self, sequenced: bool, thin: bool, buckets: int, kind: str, buffer: str, producer: str
    ) -> None:
        options = {
            "bucket": str(buckets),
            "file.format": kind,
            "data-file.thin-mode": str(thin).lower(),
            "num-sorted-run.compaction-trigger": "3",
            "target-file-size": "4 kb",
            "changelog-producer": producer,
            "write-buffer-size": buffer,
        }
        if sequenced:
            options["sequence.field"] = "s"
        self.sequenced = sequenced
        self.table = self.catalog.create_table(
            "d.t",
            {
                "columns": ["v INT", "p STRING", "k BIGINT", "s INT"],
                "primaryKeys": ["k", "p"],
                "partitionKeys": ["p"],
                "options": options,
            },
        )
        self.state = {}
        self.values = itertools.count()

    @rule(rows=st.lists(st.tuples(KEYS, PARTITIONS, SEQUENCES, KINDS), min_size=1, max_size=20))
    def upsert(self, rows: list[tuple[int, str, int | None, str]]) -> None:
        full = [{"k": k, "p": p, "s": s, "v": next(self.values), "_kind": kind} for k, p, s, kind in rows]
        applied = [row for row in full if self.apply(row)]
        if applied:
            self.table.upsert(pa.Table.from_pylist(applied, _SCHEMA))
        self.remember()

    @rule(rows=st.lists(st.tuples(KEYS, PARTITIONS, SEQUENCES), min_size=1, max_size=8))
    def overwrite(self, rows: list[tuple[int, str, int | None]]) -> None:
        full = [{"k": k, "p": p, "s": s, "v": next(self.values), "_kind": "+I"} for k, p, s in rows]
        self.table.overwrite(pa.Table.from_pylist(full, _SCHEMA))
        written = {row["p"] for row in full}
        self.state = {key: row for key, row in self.state.items() if key[1] not in written}
        for row in full:
            self.apply(row)
        self.remember()

    def apply(self, row: Mapping[str, Any]) -> bool:
        """Put a row into the state; False for a row that comes late to a deleted key.

        Whether such a row is seen depends on whether a compaction has dropped the delete: not asked here.
        """
        key = (row["k"], row["p"])
        before = self.state.get(key)
        if before is None or not self.sequenced or _order(before["s"]) <= _order(row["s"]):
            self.state[key] = row
            return True
        return bool(before["_kind"] in ("+I", "+U"))

    def copied(self) -> dict[Any, Any]:
        return dict(self.state)

    def expected(self, state: dict[Any, Any]) -> list[Any]:
        live = (row for row in state.values() if row["_kind"] in ("+I", "+U"))
        return sorted((row["k"], row["p"], row["v"]) for row in live)

    def actual(self, **at: Any) -> list[Any]:
        rows = self.table.scan(**at, columns=["k", "p", "v"]).to_arrow().to_pylist()
        return sorted((row["k"], row["p"], row["v"]) for row in rows)

    @rule(low=KEYS, partition=PARTITIONS)
    def filtered(self, low: int, partition: str) -> None:
        rows = self.table.scan(where=f"k >= {low} and p = '{partition}'", columns=["v"]).to_arrow()
        wanted = [v for k, p, v in self.expected(self.state) if k >= low and p == partition]
        assert sorted(rows.column("v").to_pylist()) == sorted(wanted)


class AppendTable(_Machine):
    """Appends and overwrites of partitions; a bag of rows."""

    @initialize(kind=FORMATS, bucketed=st.booleans())
    def create(self, kind: str, bucketed: bool) -> None:
        options = {"file.format": kind, "compaction.min.file-num": "3", "target-file-size": "8 kb"}
        if bucketed:
            options |= {"bucket": "2", "bucket-key": "k"}
        self.table = self.catalog.create_table(
            "d.t", {"columns": ["k INT", "p STRING"], "partitionKeys": ["p"], "options": options}
        )
        self.state = Counter()

    @rule(rows=st.lists(st.tuples(KEYS, PARTITIONS), min_size=1, max_size=20))
    def append(self, rows: list[tuple[int, str]]) -> None:
        self.table.append(pa.table({"k": [k for k, _ in rows], "p": [p for _, p in rows]}))
        self.state.update(rows)
        self.remember()

    @rule(rows=st.lists(st.tuples(KEYS, PARTITIONS), min_size=1, max_size=5))
    def overwrite(self, rows: list[tuple[int, str]]) -> None:
        self.table.overwrite(pa.table({"k": [k for k, _ in rows], "p": [p for _, p in rows]}))
        written = {p for _, p in rows}
        self.state = Counter({row: n for row, n in self.state.items() if row[1] not in written})
        self.state.update(rows)
        self.remember()

    def copied(self) -> Counter[Any]:
        return Counter(self.state)

    def expected(self, state: Counter[Any]) -> Counter[Any]:
        return state

    def actual(self, **at: Any) -> Counter[Any]:
        return Counter((row["k"], row["p"]) for row in self.table.scan(**at).to_arrow().to_pylist())


def _order(sequence: int | None) -> tuple[bool, int]:
    return sequence is not None, sequence or 0


_SCHEMA = pa.schema(
    [("k", pa.int64()), ("p", pa.string()), ("s", pa.int32()), ("v", pa.int32()), ("_kind", pa.string())]
)
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.parametrize("machine", [KeyTable, AppendTable])
def test_a_few_histories(machine: type[_Machine]) -> None:
    few = settings(max_examples=8, stateful_step_count=12, suppress_health_check=_QUIET)
    run_state_machine_as_test(machine, settings=few)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [KeyTable, AppendTable])
def test_many_histories(machine: type[_Machine]) -> None:
    many = settings(max_examples=25, stateful_step_count=30, suppress_health_check=_QUIET)
    run_state_machine_as_test(machine, settings=many)
