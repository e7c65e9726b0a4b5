"""Leases: exclusive, bounded in time, silent after their release, and taken over from processes that ended."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

import pytest

from lakecore.clock import Clock, SystemClock
from lakecore.errors import BusyError, InvalidInputError
from lakecore.fs.file_io import FileIO, FileStatus
from lakecore.fs.memory import MemoryFileIO
from lakecore.maintain.lease import lease as leases
from lakecore.maintain.lease.heartbeat import Heartbeat
from lakecore.maintain.lease.lease import LONGEST_LEASE_MS, Lease, LeaseTimes, holder, leased
from lakecore.maintain.lease.process import ProcessMark, has_ended, this_process
from tests.support.fake_clock import FakeClock
from tests.support.meddling_fs import Meddling

WAREHOUSE = "memory://lease/wh"
FOLDER = f"{WAREHOUSE}/.lakecore/leases/d.t"


@pytest.fixture
def storage() -> FileIO:
    file_io = MemoryFileIO("lease")
    file_io.clear()
    return file_io


def asked(
    storage: FileIO, clock: Clock, owner: str = "b", millis: int = 1000, wait_ms: int = 0
) -> AbstractContextManager[Lease]:
    return leased(storage, WAREHOUSE, "d.t", owner, clock, LeaseTimes(millis, wait_ms))


def left_behind(storage: FileIO, clock: FakeClock, process: object = None, millis: int = 1000) -> None:
    """The record of another process that ended without releasing its lease."""
    record = {"owner": "a 1", "until_ms": clock.now_ms() + millis}
    storage.overwrite(f"{FOLDER}/1", json.dumps(record | ({"process": process} if process else {})).encode())


def ended_process() -> ProcessMark:
    """The mark of a process of this machine that has ended."""
    script = "import json\nfrom lakecore.maintain.lease.process import this_process as p\nprint(json.dumps(p().to_json()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    mark = ProcessMark.from_json(json.loads(done.stdout))
    assert mark is not None
    return mark


def test_a_lease_keeps_others_out_until_its_end_and_no_longer(storage: FileIO) -> None:
    clock = FakeClock()
    left_behind(storage, clock, millis=1000)
    clock.time_ms += 999
    assert holder(storage, WAREHOUSE, "d.t", clock.now_ms()) == "a"
    with pytest.raises(BusyError, match="maintained by a 1"), asked(storage, clock):
        pass
    clock.time_ms += 1
    assert holder(storage, WAREHOUSE, "d.t", clock.now_ms()) is None
    with asked(storage, clock) as lease:
        assert lease.path == f"{FOLDER}/2"


def test_a_lease_that_is_held_ends_so_long_after_its_last_sign_of_life(storage: FileIO) -> None:
    clock = FakeClock()
    with asked(storage, clock, "a", 1000) as lease:
        clock.time_ms += 900
        lease.renew()
        clock.time_ms += 999
        with pytest.raises(BusyError), asked(storage, clock, "b"):
            pass
        clock.time_ms += 1
        with asked(storage, clock, "b"):
            assert holder(storage, WAREHOUSE, "d.t", clock.now_ms()) == "b"


@pytest.mark.parametrize("millis", [0, -1, LONGEST_LEASE_MS + 1])
def test_a_lease_has_a_bounded_time(storage: FileIO, millis: int) -> None:
    with pytest.raises(InvalidInputError, match="at most a day"), asked(storage, FakeClock(), millis=millis):
        pass
    assert list(storage.list(FOLDER)) == []


def test_a_record_that_never_ends_is_no_lease(storage: FileIO) -> None:
    clock = FakeClock()
    left_behind(storage, clock, millis=3 * LONGEST_LEASE_MS)
    assert holder(storage, WAREHOUSE, "d.t", clock.now_ms()) is None
    with asked(storage, clock):
        assert holder(storage, WAREHOUSE, "d.t", clock.now_ms()) == "b"


def test_one_of_many_gets_it(storage: FileIO) -> None:
    start, done = threading.Barrier(8), threading.Event()
    won, lost = [], []

    def ask(name: str) -> None:
        start.wait()
        try:
            with leased(storage, WAREHOUSE, "d.t", name, SystemClock(), LeaseTimes(60_000)):
                won.append(name)
                done.wait(10)
        except BusyError:
            lost.append(name)
        if len(lost) == 7:
            done.set()

    for _ in range(10):
        done.clear()
        askers = [threading.Thread(target=ask, args=(f"x{number}",)) for number in range(8)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join(20)
        assert (len(won), len(lost)) == (1, 7)
        won.clear()
        lost.clear()


def test_who_is_slow_does_not_get_a_number_that_was_used_and_forgotten(storage: FileIO) -> None:
    """Between the look and the try of one, a second holds the lease and gives it back, and a third has it."""
    clock = FakeClock()

    with ExitStack() as ends:

        def meanwhile() -> None:
            with leased(storage, WAREHOUSE, "d.t", "second", clock, LeaseTimes(1000)):
                pass
            ends.enter_context(asked(storage, clock, "third", 60_000))

        slow = Meddling(storage, "publish", "/leases/", meanwhile)
        with pytest.raises(BusyError, match="just now"), asked(slow, clock, "slow"):
            raise AssertionError("two hold the lease")
        assert holder(storage, WAREHOUSE, "d.t", clock.now_ms()) == "third"
        assert len(list(storage.list(FOLDER))) == 1


def test_no_sign_of_life_after_the_release(storage: FileIO) -> None:
    clock = FakeClock()
    with leased(storage, WAREHOUSE, "d.t", "a", clock, LeaseTimes(1000)) as lease:
        lease.renew()
    lease.renew()
    assert holder(storage, WAREHOUSE, "d.t", clock.now_ms()) is None
    assert json.loads(storage.read(lease.path))["until_ms"] == 0


def test_a_heartbeat_that_waits_for_storage_does_not_revive_a_lease(storage: FileIO) -> None:
    slow = _SlowOverwrites(storage)
    held = leased(slow, WAREHOUSE, "d.t", "a", SystemClock(), LeaseTimes(60))
    with held as lease, Heartbeat() as heart, heart.keeping(lease):
        assert slow.begun.wait(10), "no sign of life came"
        threading.Timer(0.1, slow.go_on.set).start()
    assert holder(storage, WAREHOUSE, "d.t", SystemClock().now_ms()) is None


def test_a_heartbeat_keeps_a_lease_beyond_its_time(storage: FileIO) -> None:
    clock = SystemClock()
    with (
        leased(storage, WAREHOUSE, "d.t", "a", clock, LeaseTimes(150)) as lease,
        Heartbeat() as heart,
        heart.keeping(lease),
    ):
        clock.sleep(0.5)
        assert holder(storage, WAREHOUSE, "d.t", clock.now_ms()) == "a"


def test_the_lease_of_a_process_that_ended_is_free_at_once(storage: FileIO) -> None:
    clock = FakeClock()
    mark = ended_process()
    assert has_ended(mark)
    left_behind(storage, clock, mark.to_json())
    assert holder(storage, WAREHOUSE, "d.t", clock.now_ms()) is None
    with asked(storage, clock):
        assert holder(storage, WAREHOUSE, "d.t", clock.now_ms()) == "b"


def test_the_lease_of_a_killed_process_that_nobody_waited_for_is_free_at_once(storage: FileIO) -> None:
    script = (
        "import json, sys, time\nfrom lakecore.maintain.lease.process import this_process as p\n"
        "print(json.dumps(p().to_json()), flush=True)\ntime.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    mark = ProcessMark.from_json(json.loads(child.stdout.readline()))
    assert mark is not None
    assert not has_ended(mark)
    child.kill()
    for _ in range(200):  # the kernel takes a moment; the process stays in the table until its parent asks
        if has_ended(mark):
            break
        SystemClock().sleep(0.02)
    assert has_ended(mark)
    child.communicate()


def test_only_a_process_of_this_very_machine_boot_and_container_can_be_known_to_have_ended() -> None:
    here = this_process()
    assert here is not None
    assert not has_ended(here)
    assert has_ended(replace(here, started=here.started - 1)), "the pid was used again"
    gone = ended_process()
    assert has_ended(gone)
    for other in ({"host": "elsewhere"}, {"boot": "before"}, {"space": "pid:[1] time:[2]"}):
        assert not has_ended(replace(gone, **other)), other  # type: ignore[arg-type]
    assert not has_ended(None)


@pytest.mark.parametrize(
    "damage",
    [
        {"pid": "7"}, {"pid": True}, {"pid": -1}, {"pid": 0}, {"pid": 1 << 80}, {"pid": None}, {"started": 1.5},
        {"started": []}, {"boot": ""}, {"boot": 5}, {"space": None}, {"host": {}},
    ],
)  # fmt: skip
def test_a_damaged_mark_proves_nothing(damage: dict[str, object], storage: FileIO) -> None:
    mark = ended_process_once().to_json() | damage
    assert ProcessMark.from_json(mark) is None
    clock = FakeClock()
    left_behind(storage, clock, mark)
    with pytest.raises(BusyError), asked(storage, clock):
        pass


def ended_process_once(found: list[ProcessMark] = []) -> ProcessMark:  # noqa: B006 - kept on purpose
    if not found:
        found.append(ended_process())
    return found[0]


def test_where_the_system_does_not_tell_nothing_is_known(
    storage: FileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, clock = ended_process_once(), FakeClock()
    monkeypatch.setattr("lakecore.maintain.lease.process.this_process", lambda: None)
    monkeypatch.setattr(leases, "this_process", lambda: None)
    assert not has_ended(gone)
    with asked(storage, clock) as lease:
        assert "process" not in json.loads(storage.read(lease.path))


def test_who_waits_gets_the_lease_as_soon_as_it_is_free(storage: FileIO) -> None:
    clock = FakeClock()
    left_behind(storage, clock, millis=5000)
    with asked(storage, clock, wait_ms=60_000) as lease:
        assert lease.waited
    assert sum(clock.slept) == 5


def test_who_waits_too_long_says_so(storage: FileIO) -> None:
    clock = FakeClock()
    left_behind(storage, clock, millis=60_000)
    with (
        pytest.raises(BusyError, match=r"d.t is being maintained by a 1 .*; the job waited 2.5 s"),
        asked(storage, clock, wait_ms=2500),
    ):
        pass
    assert sum(clock.slept) == 2.5
    clock.slept.clear()
    with pytest.raises(BusyError), asked(storage, clock):
        pass
    assert clock.slept == [], "without a wait the answer comes at once"


class _SlowOverwrites:
    """Storage whose second write of a file does not end before it may."""

    def __init__(self, inner: FileIO) -> None:
        self._inner = inner
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def list(self, path: str) -> Iterator[FileStatus]:
        return iter(self._inner.list(path))

    def overwrite(self, path: str, data: bytes) -> None:
        self.begun.set()
        if b'"until_ms": 0' not in data:
            self.go_on.wait(10)
        self._inner.overwrite(path, data)
