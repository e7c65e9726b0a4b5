"""Universal, full and early compaction picks: a table of cases, and what every pick must obey."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lakecore.lsm import full, universal
from lakecore.lsm.options import EarlyFullPolicy, OffPeak, UniversalPolicy
from lakecore.lsm.runs import LevelRun, Pick
from tests.support import datadriven

TESTDATA = Path(__file__).parent / "testdata"
MAX_LEVEL = 5


def universal_policy(case: datadriven.Case) -> UniversalPolicy:
    numbers = {name: int(case.args[name]) for name in ("run_trigger", "size_amp", "size_ratio")}
    hours, _, ratio = case.args.get("offpeak", "").partition(":")
    off_peak = OffPeak(*map(int, hours.split("-")), int(ratio)) if hours else OffPeak()
    return UniversalPolicy(**numbers, off_peak=off_peak).at_hour(int(case.args.get("hour", 0)))


def answer(case: datadriven.Case) -> str:
    runs = [LevelRun(int(level[1:]), int(size)) for level, size in map(str.split, case.input)]
    got: Pick | None
    match case.command:
        case "pick":
            got = universal.pick(runs, universal_policy(case), MAX_LEVEL)
        case "force":
            got = universal.force_level_0(runs, universal_policy(case), MAX_LEVEL)
        case "full":
            got = full.pick(runs, MAX_LEVEL, force_rewrite="force_rewrite" in case.args)
        case _:
            numbers = {name: int(value) for name, value in case.args.items()}
            now, last = numbers.pop("now_ms", 0), numbers.pop("last_full_ms", None)
            got = universal.early_full(runs, EarlyFullPolicy(**numbers), MAX_LEVEL, now, last)
    return "nothing" if got is None else f"newest {got.count} -> L{got.output_level} ({got.reason})"


def test_universal(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "universal.txt", answer, rewrite)


@st.composite
def trees(draw: st.DrawFn) -> list[LevelRun]:
    sizes = st.integers(0, 10**6)
    fresh = [LevelRun(0, draw(sizes)) for _ in range(draw(st.integers(0, 9)))]
    levels = sorted(draw(st.sets(st.integers(1, MAX_LEVEL))))
    return fresh + [LevelRun(level, draw(sizes)) for level in levels]


@given(trees(), st.integers(1, 8), st.integers(0, 400), st.integers(0, 100))
def test_every_pick_keeps_the_tree_in_order(runs: list[LevelRun], trigger: int, amp: int, ratio: int) -> None:
    policy = UniversalPolicy(trigger, amp, ratio)
    got = universal.pick(runs, policy, MAX_LEVEL)
    if got is None:
        assert len(runs) <= trigger
        return
    assert 1 <= got.count <= len(runs)
    assert 1 <= got.output_level <= MAX_LEVEL
    assert all(run.level > got.output_level for run in runs[got.count :])
    assert all(run.level <= got.output_level for run in runs[: got.count])


@given(trees())
def test_picking_until_nothing_ends(runs: list[LevelRun]) -> None:
    policy = UniversalPolicy()
    for _ in range(len(runs) + 1):
        got = universal.pick(runs, policy, MAX_LEVEL)
        if got is None:
            return
        merged = LevelRun(got.output_level, sum(run.size for run in runs[: got.count]))
        runs = [merged, *runs[got.count :]]
    raise AssertionError(f"still picking {got} of {runs}")


@given(trees())
def test_forced_picks_leave_no_level_0(runs: list[LevelRun]) -> None:
    policy = UniversalPolicy()
    for _ in range(len(runs) + 1):
        got = universal.force_level_0(runs, policy, MAX_LEVEL)
        if got is None:
            break
        runs = [LevelRun(got.output_level, sum(r.size for r in runs[: got.count])), *runs[got.count :]]
    assert all(run.level > 0 for run in runs)
