"""The replay of an expiry as a text table: commits, files with their snapshots, holders, and what each run removes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lakecore.maintain.expire_snapshots.plan import AgedSnapshot
from lakecore.maintain.replay.plan import ExpiryHistory, ExpiryRules, FileRows, Holder, replay_expiry
from tests.support import datadriven
from tests.support.datadriven import Case

TESTDATA = Path(__file__).parent / "testdata"
_END_MS = 60


def _holder(words: list[str], files: list[str]) -> Holder:
    kind, name, *rest = words
    options = dict(word.split("=") for word in rest if "=" in word)
    places = np.array([files.index(file) for file in options["files"].split(",")])
    if kind == "holder":
        return Holder(name=f"{name} {rest[0]}", files=places)
    snapshot, created = map(int, rest[:2])
    retained = int(options["until"]) - created if "until" in options else None
    return Holder(
        name=f"tag {name}",
        files=places,
        snapshot=snapshot,
        from_ms=created,
        created_ms=created,
        retained_ms=retained,
    )


def answer(case: Case) -> str:
    lines = [line.split() for line in case.input]
    commits = tuple(AgedSnapshot(int(one[0]), int(one[1])) for one in lines if one[0].isdigit())
    files = [one for one in lines if one[0] == "file"]
    spans = [one[3].split("-") if one[3] != "-" else ("0", "0") for one in files]
    names = [one[1] for one in files]
    rows = FileRows(
        names=np.arange(len(files)),
        sizes=np.array([int(one[2]) for one in files]),
        first=np.array([int(first) - 1 for first, _ in spans]),
        last=np.array([int(last) - 1 for _, last in spans]),
    )
    holders = tuple(_holder(one, names) for one in lines if one[0] in ("tag", "holder"))
    changelogs = {
        int(one[1]): np.array([names.index(name) for name in one[2].split("=")[1].split(",")])
        for one in lines
        if one[0] == "changelog"
    }
    consumers = {"c": int(case.args["consumer"])} if "consumer" in case.args else {}
    history = ExpiryHistory(
        snapshots=commits, files=rows, holders=holders, consumers=consumers, changelogs=changelogs
    )
    rules = None
    if "retain_max" in case.args:
        most, least = int(case.args["retain_max"]), int(case.args["retain_min"])
        longer = None
        if "changelogs" in case.args:
            longer = ExpiryRules(
                retain_max=int(case.args["changelogs"]), retain_min=1, retention_ms=1000, max_deletes=10
            )
        rules = ExpiryRules(
            retain_max=most, retain_min=least, retention_ms=1000, max_deletes=10, changelogs=longer
        )
    runs = [int(time) for time in case.args["runs"].split(",")] if "runs" in case.args else None
    replayed = replay_expiry(history, rules, runs, _END_MS)
    out = [
        f"{step.time_ms}: snapshots {list(step.snapshots)} tags {list(step.tags)} "
        f"files {[names[name] for name in step.names.tolist()]} ({step.files} files, {step.bytes} bytes)"
        for step in replayed.steps
    ]
    last = replayed.points[-1]
    out.append(f"left: snapshots {list(replayed.snapshots)}, {last.files} files, {last.bytes} bytes")
    out.append(f"average {replayed.average_bytes}, peak {replayed.peak_bytes}")
    out += [f"only {one.name} keeps {one.files} files, {one.bytes} bytes" for one in replayed.holdings]
    out += [f"impossible: {tag}" for tag in replayed.impossible_tags]
    return "\n".join([*out, replayed.blocker] if replayed.blocker else out)


def test_replay(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "replay.txt", answer, rewrite)
