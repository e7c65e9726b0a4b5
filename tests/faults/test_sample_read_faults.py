"""Storage fails at read 1, 2, 3, … of a sample: an error, nothing committed, nothing left over.

Besides the calls of `FileIO`, every read of an opened file counts, while a sample or the second decoder reads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakecore.compact.kinds.append import run as append_run
from lakecore.compact.kinds.primary_key import run as key_run
from lakecore.errors import LakeError, UnavailableError
from lakecore.jobs.compact import Strategy
from lakecore.verify.proof.second_decoder import SecondDecoders
from tests.faults.test_compact_faults import Scenario
from tests.support.fault_fs import FaultyFileIO
from tests.support.fault_turns import EVERY
from tests.support.lake import append_table, key_table, memory_catalog, rows_of

ROWS = 300


class Reads(FaultyFileIO):
    """Counts operations and reads, but only while `counts` is set."""

    counts = False

    def open_input(self, path: str) -> Any:
        return pa.PythonFile(_Input(super().open_input(path), path, self), "r")

    def open_ranges(self, path: str) -> Any:
        return _Ranges(super().open_ranges(path), path, self)

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        return super().operation(name, path, effect, torn) if self.counts else effect()


class _Input:
    """An opened file, as Python has it."""

    closed = False

    def __init__(self, source: Any, path: str, owner: Reads) -> None:
        self._source, self._path, self._owner = source, path, owner

    def read(self, size: int = -1) -> Any:
        return self._owner.operation("read from", self._path, lambda: self._source.read(size))

    def seek(self, offset: int, whence: int = 0) -> Any:
        return self._source.seek(offset, whence)

    def tell(self) -> Any:
        return self._source.tell()

    def size(self) -> Any:
        return self._source.size()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing is written."""

    def close(self) -> None:
        self.closed = True
        self._source.close()


class _Ranges:
    def __init__(self, source: Any, path: str, owner: Reads) -> None:
        self._source, self._path, self._owner = source, path, owner

    def size(self) -> Any:
        return self._source.size()

    def read_at(self, nbytes: int, offset: int) -> Any:
        return self._owner.operation("read from", self._path, lambda: self._source.read_at(nbytes, offset))

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        self._source.__exit__(*error)


def rows(keys: range) -> pa.Table:
    return pa.table({"k": list(keys), "n": [k % 7 for k in keys], "v": [f"text {k}" for k in keys]})


def keyed(kind: str) -> Scenario:
    catalog = memory_catalog(f"sample-faults-{kind}")
    options = {"file__format": kind, "file_index__bloom_filter__columns": "v"}
    table = key_table(catalog, ("k INT", "n BIGINT", "v STRING"), **options)
    table.write(rows(range(ROWS)))
    table.write(rows(range(ROWS // 3, ROWS)))
    return Scenario.of(catalog, table, Strategy.FULL)


def looked_up() -> Scenario:
    catalog = memory_catalog("sample-faults-lookup")
    table = key_table(catalog, ("k INT", "n BIGINT", "v STRING"), changelog_producer="lookup")
    table.write(rows(range(ROWS)))
    scenario = Scenario.of(catalog, table, Strategy.FULL)
    scenario.compact()
    table.write(rows(range(100)))
    return Scenario.of(catalog, table, Strategy.FULL)


def appended() -> Scenario:
    catalog = memory_catalog("sample-faults-append")
    table = append_table(catalog, ("k INT", "n BIGINT", "v STRING"))
    for start in range(0, ROWS, 50):
        table.write(rows(range(start, start + 50)))
    return Scenario.of(catalog, table, Strategy.FULL)


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "parquet": lambda: keyed("parquet"),
    "orc": lambda: keyed("orc"),
    "avro": lambda: keyed("avro"),
    "lookup": looked_up,
    "append": appended,
}


def counted(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[Reads]:
    """Operations count inside this function. The list holds the storage in use."""
    storages: list[Reads] = []
    right = getattr(where, name)

    def inside(*args: Any, **kwargs: Any) -> Any:
        storages[-1].counts = True
        try:
            return right(*args, **kwargs)
        finally:
            storages[-1].counts = False

    monkeypatch.setattr(where, name, inside)
    return storages


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_read_of_the_sample_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = SCENARIOS[name]()
    sampled = (append_run, "sample_rows") if name == "append" else (key_run, "sample_merge")
    storages = counted(monkeypatch, *sampled)
    before = rows_of(scenario.table)
    for number in itertools.count(1, 1 if EVERY else 3):
        scenario.reset()
        storages.append(Reads(scenario.catalog.file_io, fail_at=number))
        outcome = _error_of(scenario, storages[-1])
        if not storages[-1].fired:
            assert outcome is None
            break
        assert isinstance(outcome, UnavailableError), storages[-1].log[-1]
        assert scenario.untouched(), storages[-1].log[-1]
    assert number > 5
    assert any(line.startswith("read from") for line in storages[-1].log)
    assert rows_of(scenario.table) == before


@pytest.mark.parametrize(("name", "step"), [("parquet", 4), ("avro", 9)], ids=["parquet", "avro"])
def test_a_read_of_the_second_decoder_fails(name: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other library may say why it cannot read, then the report does; or the run ends with an error."""
    scenario = SCENARIOS[name]()
    storages = counted(monkeypatch, SecondDecoders, "look")
    before = rows_of(scenario.table)
    for number in itertools.count(1, step):
        scenario.reset()
        storages.append(Reads(scenario.catalog.file_io, fail_at=number))
        outcome = _error_of(scenario, storages[-1])
        if not storages[-1].fired:
            break
        assert outcome is None or scenario.untouched(), storages[-1].log[-1]
        assert rows_of(scenario.table) == before
    assert outcome is None
    assert number > 5


def _error_of(scenario: Scenario, storage: Reads) -> LakeError | None:
    try:
        scenario.compact(storage)
    except LakeError as err:
        return err
    return None
