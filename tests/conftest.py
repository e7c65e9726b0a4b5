"""Fixtures of all tests, the order of tests (fast ones first) and the time that each directory took."""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import settings

from tests.support.golden import GoldenTable, golden_tables
from tests.support.hdfs_cluster import HdfsCluster, hdfs_cluster
from tests.support.oracle import Oracle
from tests.support.worker_groups import ALONE, WholeGroups

settings.register_profile("lakecore", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("lakecore")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="store new output in testdata files; review the diff"
    )
    parser.addoption(
        "--every-kill",
        action="store_true",
        help="kill chores after each change that they make, not after some",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    if item.nodeid.startswith(ALONE):
        item.add_marker("alone")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WholeGroups | None:
    return WholeGroups(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Do not look for cycles among modules and tests while they are loaded: it is a fifth of the CPU of each process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Look for cycles less often, and not among modules and tests, which stay: it was an eighth of the CPU of a module of golden tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, set[str]] = defaultdict(set)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = str(PurePosixPath(report.nodeid.split("::")[0]).parent)
                seconds[folder] += report.duration
                tests[folder].add(report.nodeid)
    if sum(map(len, tests.values())) > 1:
        terminalreporter.section("seconds per directory")
        for folder in sorted(seconds, key=lambda name: -seconds[name]):
            terminalreporter.write_line(f"{seconds[folder]:8.1f} s {len(tests[folder]):6d} tests  {folder}")


@pytest.fixture(autouse=True, scope="session")
def short_settle_time() -> Iterator[None]:
    """Commits look again after a millisecond: thousands of them would wait for nobody.

    Tests of the guard set the option; a process of its own checks the defaults (tests/lakecore/store).
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakecore.store.settle_time._LOCAL_MS", 1)
        patch.setattr("lakecore.store.settle_time._OBJECT_STORE_MS", 1)
        yield


def _descriptor_is_open(descriptor: int) -> None:
    os.fstat(descriptor)


@pytest.fixture(autouse=True, scope="session")
def no_wait_for_disks() -> Iterator[None]:
    """Only a crash of the machine, which no test has, tells files that `os.fsync` made durable from others, and thousands
    of commits would wait for the disk. It still fails for a closed file; processes that tests start make files durable.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", _descriptor_is_open)
        yield


@pytest.fixture(autouse=True, scope="session")
def clocks_ahead_of_storage() -> Iterator[None]:
    """Clocks of tests are years ahead of storage, whose times are real; tests/lakecore/jobs/test_clock_of_storage.py
    has the limit of users.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakecore.jobs.runner.chore._CLOCK_AHEAD_MS", 1 << 62)
        yield


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether data-driven tests store what they got."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture(scope="session")
def golden() -> Callable[[str], GoldenTable]:
    """A golden table by its name, `db.t`."""
    by_name = {table.name: table for table in golden_tables()}
    return by_name.__getitem__


@pytest.fixture(scope="session")
def hdfs() -> Iterator[HdfsCluster]:
    """A cluster of Hadoop; its JVM starts with the first test that uses it. Such tests are slow."""
    with hdfs_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def oracles() -> Iterator[dict[str, Oracle]]:
    """Java Paimon by version; a JVM starts when it is first asked. Tests that use one are slow."""
    with Oracle("1.4.2") as old, Oracle("2.0.0") as new:
        yield {old.version: old, new.version: new}


@pytest.fixture(scope="session")
def oracle(oracles: dict[str, Oracle]) -> Oracle:
    """Java Paimon 1.4.2."""
    return oracles["1.4.2"]


@pytest.fixture(scope="session")
def oracle2(oracles: dict[str, Oracle]) -> Oracle:
    """Java Paimon 2.0.0."""
    return oracles["2.0.0"]
