"""Writes that encode with two threads fail like those of one: at any operation of storage, by an error of a thread
that encodes, by an interrupt while one is waited for. Nothing stays, and no thread either.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace
from typing import Any

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import LakeError
from lakecore.format.encoders import Encoders
from lakecore.format.parquet import group_encoder
from lakecore.fs.memory import MemoryFileIO
from lakecore.table import Commit, Table
from tests.faults.test_write_faults import SETTLED, named_files, rows, stored_files
from tests.support.encoding_threads import definition, encoding_threads, rows_of_shape
from tests.support.fake_clock import FakeClock
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.handles import with_stores

COMMIT = Commit(user="job", identifier=1)
INTERRUPTED = (FaultMode.INTERRUPTED, FaultMode.INTERRUPTED_AFTER_EFFECT)
SHAPES = ("append-partitioned", "append-rolling", "keyed", "keyed-buckets", "keyed-flushes")
CASES = [
    pytest.param("append-partitioned", FaultMode.INTERRUPTED, 3, id="append-every-third"),
    pytest.param("keyed", FaultMode.ERROR, 7, id="keyed-every-seventh"),
    *(
        pytest.param(
            shape,
            mode,
            1 if shape == "append-rolling" else 5,
            id=f"{shape}-{mode.value}",
            marks=pytest.mark.slow,
        )
        for shape, mode in itertools.product(SHAPES, FaultMode)
    ),
]
OLD, NEW = rows_of_shape(20), rows_of_shape(160, first=10)


def table_with_rows(shape: str) -> Table:
    MemoryFileIO("encoder-faults").clear()
    catalog = replace(load_catalog("memory://encoder-faults/wh"), clock=FakeClock())
    table = catalog.create_table("d.t", definition(shape))
    table.write(OLD)
    return table


def write(table: Table) -> BaseException | None:
    """The error of a write of the new rows; None when it succeeds."""
    try:
        table.write(NEW.to_batches(max_chunksize=40), COMMIT)
    except (LakeError, KeyboardInterrupt, MemoryError) as err:
        return err
    return None


def leaves_nothing(mode: FaultMode, operation: str) -> bool:
    """Tell whether the files of the write are gone. An interrupt of a commit leaves them: it may be in the table."""
    settled = mode in SETTLED or (mode in INTERRUPTED and "/bucket-" in operation)
    return settled and bool(operation) and "abort" not in operation


def busy() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "encode"]


@pytest.mark.parametrize(("shape", "mode", "step"), CASES)
def test_operations_of_storage_fail_one_by_one(shape: str, mode: FaultMode, step: int) -> None:
    with encoding_threads(2) as work:
        healthy = table_with_rows(shape)
        old = rows(healthy)
        assert write(healthy) is None
        new = rows(healthy)
        assert work.begun >= 3
        for number in itertools.count(1, step):
            table = table_with_rows(shape)
            storage = FaultyFileIO(table._stores.file_io, number, mode)
            error = write(with_stores(table, file_io=storage))
            where = f"operation {number} ({storage.log[number - 1] if storage.fired else 'none'}), {error!r}"
            assert rows(table) in ((new,) if error is None else (old, new)), where
            assert named_files(table) <= stored_files(table), where
            stray = {name for name in stored_files(table) - named_files(table) if name.startswith("data-")}
            if leaves_nothing(mode, storage.log[number - 1] if storage.fired else ""):
                assert {name for name in stray if not storage.log[number - 1].endswith(name)} == set(), where
            assert not busy(), where
            assert write(table) is None
            assert rows(table) == new, f"{where}: the second try"
            if not storage.fired:
                break
        assert number > 20


@pytest.mark.parametrize("shape", ["append-partitioned", "keyed-buckets", "keyed-flushes"])
@pytest.mark.parametrize("failing", ["encode", "wait"])
def test_every_encoding_fails_once(shape: str, failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the thread is raised as it is; so is an interrupt while its result is waited for."""
    error: BaseException = MemoryError("no room") if failing == "encode" else KeyboardInterrupt()
    encode, take = group_encoder._encode, Encoders._take_oldest
    for number in itertools.count(1):
        steps = itertools.count(1)

        def counted(*arguments: Any, number: int = number, steps: Any = steps) -> Any:
            if next(steps) == number:
                raise error
            return (encode if failing == "encode" else take)(*arguments)

        with encoding_threads(2), monkeypatch.context() as patch:
            table = table_with_rows(shape)
            before, kept = stored_files(table), rows(table)
            target, name = (group_encoder, "_encode") if failing == "encode" else (Encoders, "_take_oldest")
            patch.setattr(target, name, counted)
            raised = write(table)
            if raised is None:
                break
        assert raised is error
        assert stored_files(table) == before, number
        assert rows(table) == kept
        assert not busy()
        assert write(table) is None
    assert number > 2
