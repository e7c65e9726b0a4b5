"""A few histories of the differential fuzzer, those that once failed, and that they can be made smaller."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.table import Table
from lakecore.verify.mode import ProofMode
from tests.fuzz.failures import Failed, TwinBrokenError
from tests.fuzz.generate import generate
from tests.fuzz.history import FORK, LAKE, TWIN, History, Step
from tests.fuzz.play import Played, play
from tests.fuzz.replay import replayed
from tests.fuzz.shrink import shrink
from tests.fuzz.tally import Tally, combined
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


def test_histories_have_what_production_has() -> None:
    """So that a change of the generator takes nothing away unnoticed."""
    found: set[object] = set()
    for seed in range(500):
        history = generate(seed)
        options, steps = history.table["options"], history.steps
        engine = options.get("merge-engine", "deduplicate")
        producer = options.get("changelog-producer", "none")
        found |= {(engine, producer), history.judge, ("bucket", options.get("bucket"))}
        found |= {step.op for step in steps} | {step.proof for step in steps if step.op == "compact"}
        found |= {(engine, "vectors")} if "deletion-vectors.enabled" in options else set()
        found |= {key for key in options if key in ("ignore-delete", "sequence.field", "write-only")}
        found |= {f"between {step.meanwhile.op}" for step in steps if step.meanwhile}
        found |= {"part" for step in steps if step.partial} | {f"long by {len(steps) // 30}"}
        found |= {step.change["key"] for step in steps if step.change and step.change["op"] == "set"}
    engines = ("deduplicate", "partial-update", "aggregation", "first-row")
    assert {(engine, "lookup") for engine in engines} <= found
    assert {(engine, p) for engine in engines[:3] for p in ("none", "input", "full-compaction")} <= found
    assert {(engine, "vectors") for engine in engines[:3]} | {"ignore-delete", "sequence.field"} <= found
    assert {("bucket", count) for count in ("1", "2", "-1", "-2")} | {TWIN, FORK} <= found
    assert {"write", "overwrite", "compact", "alter", "expire", "tag", "untag", "rollback"} <= found
    assert {"branch", "orphans", "drop", "delete", "between write", "between compact", "part"} <= found
    assert {mode.value for mode in ProofMode} | {"write-only", "changelog-producer", "long by 2"} <= found


def test_runs_are_added_up() -> None:
    about = {"commit": "c", "dirty": False, "load_before": [1.0, 1.0, 1.0]}
    runs = []
    for first in (1, 11):
        tally = Tally(first)
        tally.clean[TWIN] += 7
        tally.clean[FORK] += 2
        tally.failed["lakecore fsck"] += 1
        tally.done["lakecore write"] += 20
        runs.append(tally.as_run(first + 10, 3.3, {**about, "date": str(first)}))
    found = combined(runs)
    assert found["histories"] == {"clean": 18, "without_judge": 0, "failed": 2}
    assert found["clean"] == {TWIN: 14, FORK: 4}
    assert found["done"] == {"lakecore write": 40}
    assert [(run["seeds"], run["seconds"], run["failed"]) for run in found["runs"]] == [
        ([1, 10], 3, 1),
        ([11, 20], 3, 1),
    ]


def test_a_change_stream_is_replayed() -> None:
    one, two = {"_kind": "+I", "k": 1, "v": 1}, {"_kind": "+I", "k": 2, "v": 2}
    gone, again = {**one, "_kind": "-D"}, {**one, "_kind": "+U", "v": 3}
    assert replayed([[one, two], [{**one, "_kind": "-U"}, again]], ["k"]) == (
        ['{"_kind": "+I", "k": 1, "v": 3}', '{"_kind": "+I", "k": 2, "v": 2}'],
        [],
    )
    for stream in ([[gone]], [[one], [one]], [[one], [{**gone, "v": 9}]], [[one, gone], [gone]]):
        assert replayed(stream, ["k"])[1]
