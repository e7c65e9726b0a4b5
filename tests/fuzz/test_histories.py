"""A few histories of the differential fuzzer, and that they can be written down and made smaller."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from lakecore.table import Table
from tests.fuzz.generate import generate
from tests.fuzz.history import LAKE, History, Step
from tests.fuzz.play import Failed, Played, TwinBrokenError, play
from tests.fuzz.shrink import shrink
from tests.support.oracle import Oracle

SEEDS = range(50, 57)


@pytest.mark.slow
def test_histories_that_lakecore_and_java_tell_alike(oracles: dict[str, Oracle]) -> None:
    total = Played()
    for seed in SEEDS:
        with suppress(TwinBrokenError):
            total.done.update(play(generate(seed), oracles).done)
    assert {f"{LAKE} {op}" for op in ("write", "compact", "read", "stream")} <= total.done.keys()


@pytest.mark.slow
def test_a_failure_is_made_smaller(oracles: dict[str, Oracle], monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(Failed, match="rows differ from the twin") as caught:
        play(History(1, table, steps), oracles)
    small, err = shrink(History(1, table, steps), caught.value, oracles)
    assert err.kind == caught.value.kind
    assert [step.by for step in small.steps] == [LAKE]
    assert len(small.steps[0].rows) == 2
    assert small.table["options"] == {"bucket": "1"}


def test_a_seed_is_a_history_and_json_keeps_it() -> None:
    for seed in range(300):
        history = generate(seed)
        assert History.from_json(history.to_json()) == history == generate(seed)
        assert replace(history, steps=()).steps == ()
