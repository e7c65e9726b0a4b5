"""Forecasts as a text table: the estimate of a run, and the risk that it conflicts with others."""

from __future__ import annotations

from pathlib import Path

from lakecore.maintain.forecast.plan import (
    Environment,
    PastRun,
    RecentCommit,
    Throughput,
    Work,
    forecast,
    risk_of,
)
from tests.support import datadriven
from tests.support.datadriven import Case

TESTDATA = Path(__file__).parent / "testdata"
MB = 1 << 20
NOW = 100_000_000
CONFLICTING = frozenset({"COMPACT", "OVERWRITE"})
THROUGHPUT = Throughput(
    seconds=1,
    files=10,
    bytes=100 * MB,
    rows=10,
    memory=1000 * MB,
    memory_of_byte=2,
    most_of_bytes=5000 * MB,
)


def work_of(text: str) -> Work:
    """Text as `20files,400MB,100rows`."""
    amounts = {part.lstrip("0123456789"): int(part.rstrip("filesMBrow")) for part in text.split(",")}
    return Work(files=amounts.get("files", 0), bytes=amounts.get("MB", 0) * MB, rows=amounts.get("rows", 0))


def past_run(line: str) -> PastRun:
    work, *pairs = line.removeprefix("past ").split()
    values = dict(pair.split("=") for pair in pairs)
    return PastRun(
        work=work_of(work),
        seconds=float(values.get("seconds", "0")),
        memory=int(values["memory"]) * MB if "memory" in values else None,
        lost="lost" in values,
    )


def forecast_answer(case: Case) -> str:
    past = [past_run(line) for line in case.input]
    found = forecast(work_of(case.args["work"]), past, THROUGHPUT, Environment(now_ms=NOW), CONFLICTING)
    return str(found)


def environment_of(case: Case) -> Environment:
    """Lines: who committed what how often, or what retains old files."""
    commits: list[RecentCommit] = []
    holders = []
    for line in case.input:
        who, _, rest = line.partition(" ")
        if who == "holder":
            holders.append(rest)
            continue
        kind, every, count = rest.split()
        step = int(every.removeprefix("every=").removesuffix("s")) * 1000
        last = commits[-1].time_ms if commits else NOW
        commits += [
            RecentCommit(time_ms=last - step * number, kind=kind, by_lakecore=who == "by-lakecore")
            for number in range(1, int(count.removeprefix("count=")) + 1)
        ]
    return Environment(
        now_ms=NOW,
        commits=tuple(commits),
        inline="inline" in case.args,
        lease=case.args.get("lease"),
        holders=tuple(holders),
    )


def risk_answer(case: Case) -> str:
    found = risk_of(
        environment_of(case), float(case.args["seconds"]), CONFLICTING, float(case.args.get("lost", "0"))
    )
    return f"{found.level} ({found.probability:.2%}): {found.words}"


def answer(case: Case) -> str:
    return forecast_answer(case) if case.command == "forecast" else risk_answer(case)


def test_rules_of_forecasts(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "forecast.txt", answer, rewrite)
