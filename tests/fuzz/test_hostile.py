"""A short run of the path fuzzer, and whether it knows every field of a record that can hold a path."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path

import pytest

from lakecore.fs.allowed_paths import AllowedPaths
from lakecore.fs.link_checks import LinkChecks
from lakecore.maintain.deletion.candidates import PlannedDeletion
from lakecore.maintain.deletion.runs import RunRecord
from lakecore.maintain.forecast.history import HistoryLine
from lakecore.maintain.repair.plan import RepairPlan, Step
from lakecore.metadata.consumer import Consumer
from lakecore.metadata.manifest.data_file import DataFile, ManifestEntry
from lakecore.metadata.manifest.index_file import DeletionRange, IndexFile
from lakecore.metadata.manifest.manifest_file import ManifestFile
from lakecore.metadata.snapshot import Snapshot
from tests.fuzz.hostile import ALL_CHORES, ALL_FIELDS, Lab, run_case, run_cases
from tests.support.chores import CHORES

RECORDS = {
    Snapshot: "snapshot", ManifestFile: "manifest-list", DataFile: "manifest", ManifestEntry: "manifest",
    IndexFile: "index-manifest", DeletionRange: "index-manifest._DELETIONS_VECTORS_RANGES", Consumer: "consumer",
    RunRecord: "run", PlannedDeletion: "run.files", HistoryLine: "history", Step: "repair-plan.step", RepairPlan: "repair-plan",
}  # fmt: skip
OTHER_NAMES = {"data_file": "f0"}
NO_PATHS = {
    "snapshot": {"uuid", "commitUser", "operation", "properties"},
    "manifest": {"_VALUE_STATS_COLS", "_WRITE_COLS"},
    "index-manifest": {"_INDEX_TYPE"},
    "consumer": {"id"},  # the name of its file
    "run": {"job", "parameters", "estimate", "outcome"},
    "run.files": {"why", "state"},
    "history": {"job", "engine", "estimate", "outcome", "run", "work"},
    "repair-plan.step": {"why", "loses", "parameters"},
    "repair-plan": {"later", "table"},  # the table is compared with the one that was asked for
}
"""Texts that no code makes a path of."""


def test_every_field_that_can_hold_a_text_is_known() -> None:
    missing = []
    for record, name in RECORDS.items():
        hints = typing.get_type_hints(record)
        for field in dataclasses.fields(record):
            key = _key(record, OTHER_NAMES.get(field.name, field.name))
            known = f"{name}.{key}" in ALL_FIELDS or key in NO_PATHS.get(name, set())
            if not known and _holds_text(hints[field.name]):
                missing.append(f"{name}.{key}")
    assert missing == []
    assert len(ALL_FIELDS) >= 20
    assert set(CHORES) <= set(ALL_CHORES)


def _key(record: type, name: str) -> str:
    if record is Snapshot:
        head, *rest = name.split("_")
        return head + "".join(part.capitalize() for part in rest)
    if record in (RunRecord, PlannedDeletion, HistoryLine, Step, RepairPlan, Consumer) or name == "f0":
        return "nextSnapshot" if name == "next_snapshot" else name
    return f"_{name.upper()}"


def _holds_text(kind: object) -> bool:
    return kind is str or any(_holds_text(part) for part in typing.get_args(kind))


def test_nothing_outside_a_table_is_touched_or_copied(tmp_path: Path) -> None:
    outcome = run_cases(Lab(tmp_path), seed=20_26, cases=40)
    assert outcome.bad == {}
    assert outcome.cases == 40
    assert outcome.verdicts["done"] < outcome.cases


def test_the_fuzzer_sees_what_goes_wrong_without_the_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    cases = [
        *(("expire at once", "manifest._EXTERNAL_PATH", "absolute", str(seed)) for seed in range(6)),
        ("expire", "link.d.db/{t}/manifest", "dot", "1"),
    ]
    assert [problem for case in cases if (problem := run_case(lab, *case)[1]) is not None] == []
    monkeypatch.setattr(AllowedPaths, "root_of_read", lambda self, path: self.warehouse)
    monkeypatch.setattr(AllowedPaths, "root_of_change", lambda self, path: self.warehouse)
    monkeypatch.setattr(AllowedPaths, "check_removable", lambda self, path: None)
    monkeypatch.setattr("lakecore.fs.confined.check_no_links", lambda *_, **__: None)
    monkeypatch.setattr(AllowedPaths, "roots_of_changes", ())
    monkeypatch.setattr(LinkChecks, "check", lambda *_: None)
    found = [run_case(lab, *case)[0] for case in cases]
    assert found[-1] == "outside changed"
    assert "outside changed" in found[:-1]
