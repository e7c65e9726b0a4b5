"""A few histories of the differential fuzzer, those that once failed, and that they can be made smaller."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.table import Table
from tests.fuzz.failures import Failed, TwinBrokenError
from tests.fuzz.generate import generate
from tests.fuzz.history import FORK, LAKE, TWIN, History, Step
from tests.fuzz.play import Played, play
from tests.fuzz.replay import replayed
from tests.fuzz.shrink import shrink
from tests.support.oracle import Oracle

SEEDS = range(50, 53)
ONCE_FAILED = sorted((Path(__file__).parent / "histories").glob("*.json"))


@pytest.mark.slow
def test_histories_that_lakecore_and_java_tell_alike(oracles: dict[str, Oracle]) -> None:
    total = Played()
    for seed in SEEDS:
        history = generate(seed)
        with suppress(TwinBrokenError):
            total.done.update(play(replace(history, steps=history.steps[:7]), oracles).done)
    assert {f"{LAKE} {op}" for op in ("write", "compact", "read", "stream")} <= total.done.keys()


@pytest.mark.slow
@pytest.mark.parametrize("file", ONCE_FAILED, ids=lambda file: file.stem)
def test_histories_that_once_failed(oracles: dict[str, Oracle], file: Path) -> None:
    """Each was made smaller from a failure of the fuzzer; the bug it found is named by the file."""
    history = History.from_json(file.read_text())
    played = play(history, oracles)
    assert not played.left_out
    assert played.done[f"{LAKE} compact"] >= sum(
        step.op == "compact" for step in history.steps if step.by == LAKE
    )


@pytest.mark.slow
@pytest.mark.parametrize("judge", [TWIN, FORK])
def test_a_failure_is_made_smaller(
    oracles: dict[str, Oracle], monkeypatch: pytest.MonkeyPatch, judge: str
) -> None:
    """A lakecore that loses a row of every write of more than one."""
    right = Table.write
    monkeypatch.setattr(
        Table, "write", lambda self, rows: right(self, rows.slice(0, max(1, rows.num_rows - 1)))
    )
    rows = tuple({"k": k, "v": k} for k in range(8))
    table = {
        "columns": [{"name": "k", "type": "INT NOT NULL"}, {"name": "v", "type": "INT"}],
        "primaryKeys": ["k"],
        "partitionKeys": [],
        "options": {"bucket": "1", "file.format": "orc"},
    }
    steps = (
        Step("write", "1.4.2", rows),
        Step("write", LAKE, tuple({**row, "k": row["k"] + 8} for row in rows)),
    )
    history = History(1, table, steps, judge)
    with pytest.raises(Failed, match="rows differ from") as caught:
        play(history, oracles)
    small, err = shrink(history, caught.value, oracles)
    assert err.kind == caught.value.kind
    assert [step.by for step in small.steps] == [LAKE]
    assert len(small.steps[0].rows) == 2
    assert small.table["options"] == {"bucket": "1"}


def test_a_seed_is_a_history_and_json_keeps_it() -> None:
    for seed in range(300):
        history = generate(seed)
        assert History.from_json(history.to_json()) == history == generate(seed)
        assert replace(history, steps=()).steps == ()


def test_a_change_stream_is_replayed() -> None:
    one, two = {"_kind": "+I", "k": 1, "v": 1}, {"_kind": "+I", "k": 2, "v": 2}
    gone, again = {**one, "_kind": "-D"}, {**one, "_kind": "+U", "v": 3}
    assert replayed([[one, two], [{**one, "_kind": "-U"}, again]], ["k"]) == (
        ['{"_kind": "+I", "k": 1, "v": 3}', '{"_kind": "+I", "k": 2, "v": 2}'],
        [],
    )
    for stream in ([[gone]], [[one], [one]], [[one], [{**gone, "v": 9}]], [[one, gone], [gone]]):
        assert replayed(stream, ["k"])[1]
