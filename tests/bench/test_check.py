"""Figures that became slower are named, whatever the speed of the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench.__main__ import benches
from tests.bench.check import NotComparableError, compare, main
from tests.bench.figures import FIGURES

NAMES = [name for name, *_ in benches(small=False)]


def figures(java: float, ours: float, *, rate: float = 100.0, rows: int = 5) -> dict[str, Any]:
    sides = {"java": {"seconds": java, "rows_per_second": 50.0}, "lakecore": {"seconds": ours, "rows_per_second": rate}}  # fmt: skip
    return {"rows": rows, "cases": [{"case": "a", "load_after": [1.0], **sides}]}


@pytest.mark.parametrize(
    ("now", "slower"),
    [
        (figures(2.0, 1.0), []),
        (figures(4.0, 2.0), []),  # another machine
        (figures(2.0, 1.2), ["a seconds"]),
        (figures(1.0, 1.0), ["a seconds"]),  # a faster machine hides it
        (figures(2.0, 1.0, rate=80.0), ["a rows_per_second"]),
        (figures(2.0, 0.5, rate=200.0), []),
    ],
)
def test_times_count_in_units_of_a_peer(now: dict[str, Any], slower: list[str]) -> None:
    found = compare(figures(2.0, 1.0), now).slower(10)
    assert [one.figure for one in found] == slower
    assert all(one.peer == "java" and one.factor > 1.1 for one in found)


def test_members_of_lists_are_found_by_name_and_what_is_missing_is_named() -> None:
    two = {"cases": [{"case": "a", "lakecore": {"cpu": 1.0}}, {"case": "b", "lakecore": {"cpu": 9.0}}]}
    turned = {"cases": [{"case": "b", "lakecore": {"cpu": 9.0}}, {"case": "a", "lakecore": {"cpu": 1.0}}]}
    assert [one.factor for one in compare(two, turned).changes] == [1.0, 1.0]
    assert compare(two, {"cases": turned["cases"][:1]}).missing == ("a cpu",)
    [change] = compare(two, {"cases": [two["cases"][0], {"case": "b", "lakecore": {"cpu": 10.0}}]}).slower(10)
    assert str(change) == "b cpu: 10 instead of 9, 1.11 times (without a peer, the machine counts)"


def test_other_sizes_are_refused() -> None:
    with pytest.raises(NotComparableError, match="the committed figures have rows 5, these have 6"):
        compare(figures(2.0, 1.0), figures(2.0, 1.0, rows=6))


def test_the_command_compares_each_bench_and_its_exit_code_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = json.loads((FIGURES / "read.json").read_text())
    (tmp_path / "read.json").write_text(json.dumps(measured))
    assert main(["--figures", str(tmp_path), "read"]) == 0
    measured["figures"]["cases"][0]["lakecore"]["seconds"] *= 1.3
    (tmp_path / "read.json").write_text(json.dumps(measured))
    assert main(["--figures", str(tmp_path), "read"]) == 1
    assert "1.30 times (in units of java's time)" in capsys.readouterr().out
    assert main(["--figures", str(tmp_path), "write"]) == 2
    with pytest.raises(SystemExit):
        main(["--figures", str(tmp_path), "nothing"])


@pytest.mark.parametrize("name", [name for name in NAMES if name != "proof"])
def test_every_committed_file_has_times_that_can_be_compared(name: str) -> None:
    committed = json.loads((FIGURES / f"{name}.json").read_text())["figures"]
    same = compare(committed, committed)
    assert same.changes
    assert not same.missing
    assert {round(one.factor, 9) for one in same.changes} == {1.0}
