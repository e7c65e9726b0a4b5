"""The tests of Spark and of Airflow are dealt out in whole groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from xdist.workermanage import WorkerController

from tests.support.worker_groups import WholeGroups

TESTS = [
    f"tests/{name}::test_{number}" for number in range(3) for name in ("spark/test_a.py", "dags/test_b.py")
]
TESTS += ["tests/dags/test_c.py::test_0", "tests/spark/test_d.py::test_0[x@y::z]"]


class Worker:
    """It is told the numbers of the tests that it has to run."""

    shutting_down = False
    gateway = SimpleNamespace(id="worker")

    def __init__(self) -> None:
        self.tests: list[int] = []

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.tests += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_group_is_run_by_one_process(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytestconfig.option, "tx", ["2*popen"])
    monkeypatch.setattr(pytestconfig.option, "loadscopereorder", False)
    scheduler = WholeGroups(pytestconfig)
    workers = Worker(), Worker()
    for worker in workers:
        node = cast(Any, worker)
        scheduler.add_node(node)
        scheduler.add_node_collection(node, TESTS)
    scheduler.schedule()
    first, second = workers
    assert {TESTS[number] for number in first.tests} == {one for one in TESTS if "test_a.py" in one}
    assert {TESTS[number] for number in second.tests} == {one for one in TESTS if "/dags/" in one}
    for number in first.tests:
        scheduler.mark_test_complete(cast(WorkerController, first), number)
    assert TESTS[first.tests[-1]] == "tests/spark/test_d.py::test_0[x@y::z]"
    assert len(first.tests + second.tests) == len(TESTS)
