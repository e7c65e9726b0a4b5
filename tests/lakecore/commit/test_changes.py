"""Which snapshots a commit makes of its messages, and what they carry over, case by case."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from lakecore.commit.plan import Change, ListFile, SnapshotLists, next_snapshot, plan_changes
from lakecore.commit.request import CommitRequest, Overwrite
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile, EntryKind
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.snapshot import CommitKind
from tests.support import datadriven
from tests.support.builders import commit_message, data_file, snapshot
from tests.support.datadriven import Case

TESTDATA = Path(__file__).parent / "testdata"
OVERWRITES = {
    "table": Overwrite.table(),
    "static": Overwrite.static({"p": 1}),
    "dynamic": Overwrite.dynamic(),
}


def changes_answer(case: Case) -> str:
    """Lines: a bucket, a field of its commit message, the files there."""
    request = CommitRequest(
        user="u",
        identifier=1,
        overwrite=OVERWRITES[case.args["overwrite"]] if "overwrite" in case.args else None,
        check_append="check_append" in case.args,
        allow_empty="allow_empty" in case.args,
    )
    found: dict[int, dict[str, tuple[DataFile, ...]]] = defaultdict(dict)
    for line in case.input:
        bucket, part, *files = line.split()
        found[int(bucket)][part] = tuple(data_file(name) for name in files)
    messages = [message_of(bucket, parts) for bucket, parts in found.items()]
    return "\n".join(map(change_text, plan_changes(messages, request))) or "no snapshot"


def message_of(bucket: int, parts: dict[str, tuple[DataFile, ...]]) -> CommitMessage:
    new = parts.pop("new_files", ())
    return commit_message(*new, bucket=bucket, total_buckets=2, **parts)


def change_text(change: Change) -> str:
    parts = [" ".join(signed(change.entries)) or "no files"]
    parts += [f"changelog {' '.join(signed(change.changelog))}"] if len(change.changelog) else []
    parts += [f"needs {' '.join(signed(change.required_files))}"] if len(change.required_files) else []
    parts += ["compared with the live files"] if change.checked else []
    return f"{change.kind.value}: {', '.join(parts)}"


def signed(entries: ManifestEntries) -> list[str]:
    signs = {EntryKind.ADD: "+", EntryKind.DELETE: "-"}
    return [f"{signs[one.kind]}{one.file.file_name}/{one.bucket}" for one in entries.rows()]


def snapshot_answer(case: Case) -> str:
    """Arguments: the commit, and with `previous_` in front the snapshot before it. What the new snapshot has."""
    given = {key: int(value) for key, value in case.args.items()}
    previous = None
    if "previous_id" in given:
        previous = snapshot(
            given["previous_id"],
            time_millis=given.get("previous_time", 0),
            total_record_count=given.get("previous_rows", 0),
            watermark=given.get("previous_watermark"),
            next_row_id=given.get("previous_next_row_id"),
            statistics="stats",
        )
    lists = SnapshotLists(
        base=ListFile("base", 1),
        delta=ListFile("delta", 1),
        changelog=None,
        next_row_id=given.get("next_row_id"),
        delta_rows=given.get("rows", 0),
        changelog_rows=None,
    )
    request = CommitRequest(user="u", identifier=1, watermark=given.get("watermark"))
    made = next_snapshot(previous, CommitKind.APPEND, request, lists, 0, given.get("now", 0))
    values = {
        "id": made.id,
        "time": made.time_millis,
        "rows": made.total_record_count,
        "watermark": made.watermark,
        "next row id": made.next_row_id,
        "statistics": made.statistics,
    }
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def answer(case: Case) -> str:
    return snapshot_answer(case) if case.command == "snapshot" else changes_answer(case)


def test_changes(rewrite: bool) -> None:
    datadriven.check(TESTDATA / "changes.txt", answer, rewrite)
