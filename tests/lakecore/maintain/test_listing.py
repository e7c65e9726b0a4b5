"""Many directories are listed elsewhere: the same answers, and an error of one of them ends it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from lakecore.errors import UnavailableError
from lakecore.executor import SerialExecutor
from lakecore.fs.file_io import FileStatus
from lakecore.fs.memory import MemoryFileIO
from lakecore.maintain.orphans.listing import DirectoryListing, Lister
from tests.support.fault_fs import FaultyFileIO

DIRECTORIES = tuple(f"t/p={number}" for number in range(600))


class Elsewhere(SerialExecutor):
    """As an engine of several processes does: everything crosses as bytes. `stops`: after so many units."""

    name = "elsewhere"
    parallelism = 2

    def __init__(self, stops: int | None = None) -> None:
        super().__init__()
        self.stops = stops
        self.units = 0

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for result in super().run(function, map(_crossed, tasks)):
            if self.units == self.stops:
                return
            self.units += 1
            yield result if isinstance(result, BaseException) else _crossed(result)


def _crossed(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class Refusing(FaultyFileIO):
    """Does not answer for one directory."""

    def list(self, path: str) -> list[FileStatus]:
        if path == DIRECTORIES[-1]:
            raise UnavailableError(f"no answer for {path}")
        return super().list(path)


class Timeless(FaultyFileIO):
    """Each directory has files of these ages."""

    def list(self, path: str) -> list[FileStatus]:
        return [FileStatus(f"{path}/{time}", 1, False, time) for time in (-1, 0, 1, 999, 1000)]


@pytest.fixture(scope="module")
def storage() -> MemoryFileIO:
    made = MemoryFileIO()
    for number, directory in enumerate(DIRECTORIES):
        made.write_new(f"{directory}/bucket-0/x", b"")
        for name in range(number % 3):
            made.write_new(f"{directory}/{name}", b"x" * name)
    return made


def found(storage: Any, executor: SerialExecutor) -> list[DirectoryListing]:
    return list(Lister(storage, 1 << 60, executor).each(DIRECTORIES, lambda one: one))


def test_executors_answer_as_threads_do(storage: MemoryFileIO) -> None:
    engine = Elsewhere()
    here, there = found(storage, SerialExecutor()), found(storage, engine)
    assert (here == there, engine.units) == (True, 10)
    assert (here[1].folders, here[5].old[1].path, here[5].size) == (("t/p=1/bucket-0",), "t/p=5/1", 1)


@pytest.mark.parametrize("engine", [SerialExecutor(), Elsewhere()])
def test_an_error_of_one_directory_ends_it(storage: MemoryFileIO, engine: SerialExecutor) -> None:
    with pytest.raises(UnavailableError, match="p=599"):
        found(Refusing(storage), engine)


def test_an_engine_that_stops_early_is_an_error(storage: MemoryFileIO) -> None:
    with pytest.raises(UnavailableError, match="the listing stopped before"):
        found(storage, Elsewhere(stops=3))


@pytest.mark.parametrize("executor", [SerialExecutor(), Elsewhere()], ids=["here", "elsewhere"])
def test_a_file_whose_age_is_not_known_is_young(executor: SerialExecutor) -> None:
    """Storage that tells no time, or one before 1970, says nothing of whether a writer is still at work."""
    lister = Lister(Timeless(MemoryFileIO("timeless")), 1000, executor)
    for found in lister.each([f"d{number}" for number in range(600)], lambda seen: seen):
        assert found.files == 5
        assert [status.mtime_ms for status in found.old] == [1, 999]
