"""Does a bug make a compaction write wrong rows, and does its proof or its commit refuse them?

The tables of `cases` are made once by the code as it is, with what their jobs must leave: rows, change streams, and the
description of the files. A child process then runs the jobs on copies with the bug, by the default proof; another one
reads the copies with the code as it is and compares.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.mutants.calls import Recorder
from tests.mutants.cases import CASES, TABLES, Case, run_case

__all__ = ["Expected", "check_cases", "make_tables", "run_cases", "worst"]

Expected = Mapping[str, Any]
VERDICTS = ("not run", "same", "changed", "conflict", "error", "refused", "wrong")
"""From harmless to harmful. `changed`: the files are others, the rows are right. `conflict`, `error`, `refused`: the job
ended with that, and the table has its rows. `wrong`: it was committed, or the rows are gone."""
_CASE_SECONDS = 30


class _CaseTimeout(Exception):
    """A job that does not come to its end."""


def make_tables(folder: Path, root: Path, names: Sequence[str]) -> None:
    """The tables of some cases, and `expected.json`: by case what its job leaves, and the functions it calls. In a child."""
    lake = _lake(folder / "warehouse", create=True)
    cases = [CASES[name] for name in names]
    for name in dict.fromkeys(case.table for case in cases):
        TABLES[name](lake, f"db.{name}")
    expected = {}
    for case in cases:
        _copy(folder / "warehouse", folder / "made", [case])
        made = _lake(folder / "made")
        before = _state(made, case)
        recorder = Recorder(root)
        recorder.start()
        try:
            run_case(made, case, f"db.{case.name}")
        finally:
            calls = recorder.stop()
        after = _state(made, case, since=before["snapshot"])
        if after["files"] == before["files"]:
            raise AssertionError(f"{case.name}: its job has nothing to do")
        expected[case.name] = {"before": before, "after": after, "calls": calls}
    shutil.rmtree(folder / "made")
    (folder / "expected.json").write_text(json.dumps(expected))


def run_cases(tables: Path, work: Path, names: Sequence[str]) -> dict[str, Any]:
    """The outcome of each job, on copies of the tables in `work`. In a child with the bug."""
    from lakecore.errors import CommitConflictError, LakeError, ProofError

    cases = [CASES[name] for name in names]
    _copy(tables / "warehouse", work, cases)
    outcomes = {}
    for case in cases:
        started = time.perf_counter()
        message = ""
        try:
            with _limited(_CASE_SECONDS):
                dropped = run_case(_lake(work), case, f"db.{case.name}")
            outcome, message = ("conflict", f"dropped: {dropped}") if dropped else ("done", "")
        except ProofError as err:
            outcome, message = "refused", str(err)
        except CommitConflictError as err:
            outcome, message = "conflict", str(err)
        except (LakeError, Exception, _CaseTimeout) as err:  # noqa: BLE001 - a bug may raise anything
            outcome, message = "error", f"{type(err).__name__}: {err}"
        seconds = round(time.perf_counter() - started, 3)
        outcomes[case.name] = {"outcome": outcome, "message": message[:300], "seconds": seconds}
    return outcomes


def check_cases(work: Path, expected: Expected, outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict on each case (`VERDICTS`) and why. In a child with the code as it is."""
    return {name: _verdict(work, CASES[name], expected[name], outcome) for name, outcome in outcomes.items()}


def worst(verdicts: Iterable[str]) -> str:
    """The most harmful of them."""
    return max(verdicts, key=VERDICTS.index, default="not run")


def _verdict(work: Path, case: Case, expected: Expected, outcome: Mapping[str, Any]) -> dict[str, str]:
    done = outcome["outcome"] == "done"
    wanted = expected["after"]
    since = expected["before"]["snapshot"]
    try:
        if done:
            found = _state(_lake(work), case, since=since)
            if found["snapshot"] == since:
                return {"verdict": "changed", "why": "nothing was done"}
            if found["files"] != wanted["files"] and _tells_at_the_top(work, case):
                wanted = {**wanted, "changes": None}
            why = _difference(wanted, found) or _later(work, case, wanted, found)
        else:
            why = _stopped(work, case, expected)
    except Exception as err:  # noqa: BLE001 - what cannot be read is lost
        return {"verdict": "wrong", "why": f"unreadable: {type(err).__name__}: {err}"[:300]}
    if why:
        return {"verdict": "wrong", "why": why}
    if not done:
        return {"verdict": outcome["outcome"], "why": outcome["message"]}
    same = found["files"] == wanted["files"] and found["total"] == wanted["total"]
    return {"verdict": "same" if same else "changed", "why": ""}


def _tells_at_the_top(work: Path, case: Case) -> bool:
    """Its changes are told when files reach the last level: when, is a matter of what was picked."""
    options = _lake(work).load_table(f"db.{case.name}").schema.options
    return bool(options.get("changelog-producer") == "full-compaction")


def _stopped(work: Path, case: Case, expected: Expected) -> str:
    """Of a job that did not do all of its work: rows are as before, or the same job without the bug makes them right.

    (What some picks have committed stays, and tables that hide level 0 then show new rows of these buckets.)
    """
    found = _state(_lake(work), case)
    if found["rows"] in (expected["before"]["rows"], expected["after"]["rows"]):
        return ""
    run_case(_lake(work), case, f"db.{case.name}")
    return _difference({**expected["after"], "changes": None}, _state(_lake(work), case))


def _difference(wanted: Expected, found: Expected) -> str:
    if wanted["rows"] != found["rows"]:
        return f"rows: {found['count']} where {wanted['count']} are right"
    if wanted.get("changes") and wanted["changes"] != found["changes"]:
        return "the change stream is another one"
    return ""


def _later(work: Path, case: Case, wanted: Expected, found: Expected) -> str:
    """What shows only later, where the files are not those that are expected: in a search by key, in the next merge."""
    if found["files"] == wanted["files"]:
        return ""
    table = _lake(work).load_table(f"db.{case.name}")
    keys = table.schema.primary_keys
    if keys and table.schema.row_type.field(keys[-1]).type.root.value == "INT":
        for value in (3, 17, 40):
            where = f"{keys[-1]} = {value}"
            plain = [row for row in table.scan().to_arrow().to_pylist() if row[keys[-1]] == value]
            if _sorted(table.scan(where=where).to_arrow().to_pylist()) != _sorted(plain):
                return f"a search for {where} finds other rows"
    from lakecore.jobs import compact

    job = {"table": f"db.{case.name}", "strategy": "full", "proof": "full"}
    if case.kind == "compact" and "order_strategy" not in case.job:
        compact.run(compact.Job.from_json(job), _lake(work))
        if _state(_lake(work), case)["rows"] != wanted["rows"]:
            return "the next full compaction makes other rows"
    return ""


def _state(lake: Any, case: Case, since: int | None = None) -> dict[str, Any]:
    """Digests of rows and changes, and what the manifests say of the files, but for their names and times."""
    table = lake.load_table(f"db.{case.name}")
    latest = table._stores.snapshots.latest()
    rows = table.scan().to_arrow().to_pylist()
    found = {
        "snapshot": latest.id,
        "total": latest.total_record_count,
        "count": len(rows),
        "rows": _digest(rows if case.ordered else _sorted(rows)),
        "files": _digest(_files(table, latest)),
    }
    if case.told and since is not None:
        found["changes"] = _digest(_changes(table, since))
    return found


def _changes(table: Any, since: int) -> list[Any]:
    lines = [
        row
        for change in table.stream(snapshot=since + 1, as_written=True)
        for batch in change.to_batches()
        for row in batch.to_pylist()
    ]
    return _sorted(lines)


def _files(table: Any, latest: Any) -> list[Any]:
    deletions = table._scanner.deletions(latest)
    from lakecore.store.indexes import load_deletions

    found = []
    for entry in table._scanner.live_entries(latest).rows():
        file = entry.file
        vector = deletions.get((entry.partition, entry.bucket, file.file_name))
        deleted = [] if vector is None else list(load_deletions(table._stores.file_io, vector))
        stats = [
            (s.min_values.hex(), s.max_values.hex(), s.null_counts)
            for s in (file.key_stats, file.value_stats)
        ]
        found.append(
            [entry.partition.hex(), entry.bucket, entry.total_buckets, file.level, file.row_count, file.min_key.hex(),
             file.max_key.hex(), file.min_sequence_number, file.max_sequence_number, file.delete_row_count, stats,
             file.schema_id, str(file.file_source), file.first_row_id, file.write_cols, deleted, len(file.extra_files)]
        )  # fmt: skip
    return _sorted(found)


def _sorted(rows: Iterable[Any]) -> list[str]:
    return sorted(repr(row) for row in rows)


def _digest(rows: Iterable[Any]) -> str:
    return hashlib.sha256("\n".join(map(str, rows)).encode()).hexdigest()[:24]


def _lake(folder: Path, *, create: bool = False) -> Any:
    import lakecore

    return lakecore.load_catalog(str(folder), create_warehouse=create, **{"local.fsync": "false"})


def _copy(warehouse: Path, target: Path, cases: Iterable[Case]) -> None:
    for case in cases:
        shutil.copytree(warehouse / "db.db" / case.table, target / "db.db" / case.name)


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _CaseTimeout(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
