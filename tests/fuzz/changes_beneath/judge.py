"""One case: the chore, the change beneath it, and what must be true of the table afterwards."""

from __future__ import annotations

import re
import shutil
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lakecore.errors import CommitUncertainError, LakeError, NotFoundError, UnavailableError, UnsupportedError
from lakecore.fs.file_io import FileIO
from lakecore.jobs import remove_orphan_files
from tests.fuzz.changes_beneath.chores import LATER
from tests.fuzz.changes_beneath.place import REMOVED, Place
from tests.fuzz.changes_beneath.shapes import SHAPES, TABLE, Moment, Row, Rows, lines
from tests.fuzz.changes_beneath.step import Step
from tests.fuzz.walk_loop import changelog_lists
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.oracle import OracleError, findings

__all__ = ["Case", "Verdict", "judged"]

_FORGETS_BRANCHES = ("java-delete-tag", "java-replace-tag")
_LATEST = re.compile(r"hint LATEST=(\d+) real=(\d+)")
_SHOWN = 6


@dataclass(frozen=True)
class Case:
    """`operation` is the number of a storage operation of the chore; with `kill` the chore dies there and is repeated
    after the change.
    """

    shape: str
    chore: Step
    change: Step
    operation: int
    java: str = "new"
    kill: FaultMode | None = None

    def __str__(self) -> str:
        how = f"killed ({self.kill.value})" if self.kill else "beneath"
        return f"{self.shape} | {self.chore.name} | {self.change.name} by {self.java} | {how} at {self.operation}"


@dataclass
class Verdict:
    """It says what happened in a case, and what is wrong with it."""

    problems: list[str] = field(default_factory=list)
    at: str = ""
    """The operation at which the change was made."""
    first: BaseException | None = None
    """The error of the chore that was killed; None if it ended before."""
    error: BaseException | None = None
    """The error of the chore, or of the repeated one."""
    change_error: BaseException | None = None


class _ChangingFileIO(FaultyFileIO):
    """It makes a change before its operation `number`."""

    def __init__(self, inner: FileIO, number: int, change: Callable[[], None]) -> None:
        super().__init__(inner)
        self._number, self._change = number, change
        self.at = ""

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        if not self.at and self.count + 1 >= self._number:
            self.at = f"{name} {path}"
            self._change()
        return super().operation(name, path, effect, torn)


class _DyingFileIO(FaultyFileIO):
    """Nothing is torn that all storage replaces at once: hints, tags, leases and records of runs."""

    def operation(self, name: str, path: str, effect: Any, torn: Any = None) -> Any:
        return super().operation(name, path, effect, None if name == "overwrite" else torn)


def judged(place: Place, case: Case) -> Verdict | None:
    """Do the case, and judge it. None if the chore has fewer operations this time."""
    moment = place.reset(case.shape, case.java)
    moment.in_stream = case.change.in_stream
    for step in (case.change, case.chore):
        step.prepare(place, place.catalog(), moment)
    verdict = Verdict()
    if case.kill:
        _kill_and_repeat(place, case, moment, verdict)
    else:
        _change_beneath(place, case, moment, verdict)
        if not verdict.at:
            return None
    allowed = _allowed(case, moment, verdict)
    error = verdict.error
    if error is not None and not isinstance(error, LakeError):
        verdict.problems.append(
            "an error that is none of lakecore: " + "".join(traceback.format_exception(error)[-3:])
        )
    if case.change.name == "java-drop" and not (place.warehouse / "d.db" / "t" / "schema").exists():
        return verdict  # there is nothing to read
    checks = [
        ("lakecore", lambda: _lake_rows(place, case, allowed)),
        ("Java", lambda: _other_rows(place.java_rows(), allowed)),
        ("chore", lambda: [] if error else case.chore.judge(place, moment, allowed)),
        ("orphans", lambda: [] if _has_half_a_branch(case, verdict) else _remove_orphans(place, case)),
        ("fsck", lambda: [] if _has_half_a_branch(case, verdict) else _findings(place, case)),
        ("tags", lambda: _tags(place, moment)),
    ]
    for name, check in checks:
        try:
            verdict.problems += [f"{name}: {text}" for text in check()]
        except (LakeError, OracleError, AssertionError) as err:
            verdict.problems.append(f"{name}: {type(err).__name__}: {str(err)[:400]}")
    return verdict


def _attempt(act: Callable[[], None]) -> BaseException | None:
    try:
        act()
    except Exception as err:  # noqa: BLE001 - it is part of the verdict
        return err
    return None


def _change_beneath(place: Place, case: Case, moment: Moment, verdict: Verdict) -> None:
    changing: list[_ChangingFileIO] = []

    def change() -> None:
        verdict.change_error = _attempt(lambda: case.change.act(place, place.catalog(), moment))

    def storage(inner: FileIO) -> FileIO:
        changing.append(_ChangingFileIO(inner, case.operation, change))
        return changing[0]

    catalog = place.catalog(storage)
    verdict.error = _attempt(lambda: case.chore.act(place, catalog, moment))
    verdict.at = changing[0].at


def _kill_and_repeat(place: Place, case: Case, moment: Moment, verdict: Verdict) -> None:
    assert case.kill is not None
    kill = case.kill
    catalog = place.catalog(lambda inner: _DyingFileIO(inner, case.operation, kill))
    verdict.first = _attempt(lambda: case.chore.act(place, catalog, moment))
    shutil.rmtree(place.warehouse / ".lakecore" / "leases", ignore_errors=True)  # they have run out
    verdict.change_error = _attempt(lambda: case.change.act(place, place.catalog(), moment))
    verdict.error = _attempt(lambda: case.chore.act(place, place.catalog(), moment))


def _allowed(case: Case, moment: Moment, verdict: Verdict) -> list[Counter[str]]:
    """Lines of the rows that are allowed. An append that was killed and repeated as a new one may have rows twice."""
    rows = [lines(possible.values()) for possible in _orders(case, moment, verdict)]
    if case.kill and case.chore.appends and not SHAPES[case.shape].keyed:
        rows += [possible + lines(moment.of_chore) for possible in rows]
    return rows


def _orders(case: Case, moment: Moment, verdict: Verdict) -> list[Rows]:
    """The rows that some order of what happened gives. A change that failed may have done a part of its work; then both
    its rows and those without it are allowed.
    """

    def chore(rows: Rows) -> Rows:
        return case.chore.rows(rows, moment)

    def change(rows: Rows) -> Rows:
        return case.change.rows(rows, moment)

    base = moment.base
    both = [chore(change(base)), change(chore(base))]
    error = verdict.error
    allowed = both[:] if error is None else [change(base)]
    if isinstance(error, CommitUncertainError) or (error is not None and case.chore.several):
        allowed += both
    if case.kill:
        allowed += [chore(change(chore(base)))]
        allowed += [] if error is None else [*both, chore(base), base]
    if verdict.change_error is not None:
        without = base if error else chore(base)
        allowed += [without, *both]
        if case.change.name == "java-rollback-and-writes":
            gone_back = moment.history[moment.middle]
            allowed += [chore(gone_back), gone_back]
    return allowed


def _lake_rows(place: Place, case: Case, allowed: list[Counter[str]]) -> list[str]:
    place.settle(case.shape)
    return _other_rows(place.rows(), allowed)


def _other_rows(rows: list[Row], allowed: list[Counter[str]]) -> list[str]:
    read, wanted = lines(rows), allowed[0]
    if read in allowed:
        return []
    lacks, more = [*(wanted - read).elements()], [*(read - wanted).elements()]
    return [f"lacks {lacks[:_SHOWN]}, has more {more[:_SHOWN]}"]


def _remove_orphans(place: Place, case: Case) -> list[str]:
    """It must find all files that the table needs, and leave those. It is no problem that it removes nothing."""
    job = remove_orphan_files.Job(table=TABLE, safety=REMOVED)
    try:
        remove_orphan_files.run(job, place.catalog(), clock=LATER)
    except (UnsupportedError, UnavailableError):
        if case.change.name != "java-create-bare":
            raise  # a table without snapshots is left alone, also by the rest of an interrupted run
    except NotFoundError:
        if case.change.name not in _FORGETS_BRANCHES:
            raise  # Java has deleted manifests of the branch with the tag, and lakecore refuses the table rightly
    return []


def _findings(place: Place, case: Case) -> list[str]:
    report = place.judges["new"].fsck(place.warehouse, TABLE, deep=False)
    return sorted(text for text in findings(report) if not _by_java(place, case, text))


def _by_java(place: Place, case: Case, finding: str) -> bool:
    """Findings that a table has after the same steps of Java alone."""
    if not finding.startswith("error: "):
        return True  # orphans are what the removal of orphans must leave, such as the quarantine
    if "DV for non-live" in finding:
        return True  # compactions of Java leave vectors of files that they removed
    if "missing hint" in finding:
        return True  # a branch of Java has no hints
    if hint := _LATEST.search(finding):
        # two commits at once may write it in either order; readers look further
        return int(hint[1]) < int(hint[2])
    if any(name in finding for name in changelog_lists(place.warehouse)):
        return True  # Java's expiry removes the changelog of a snapshot whose tag names it still
    if "/delta: missing file" in finding and finding.startswith("error: main: changelog"):
        # without a producer, changelogs keep the files that commits of kind APPEND added, not those of compactions
        return case.shape != "lookup"
    # Java deletes the files of a tag even if a branch needs them
    return finding.startswith("error: br:") and case.change.name in _FORGETS_BRANCHES


def _has_half_a_branch(case: Case, verdict: Verdict) -> bool:
    """A creation of a branch by Java that fails leaves a branch without a schema, which chores and fsck refuse."""
    return case.change.name == "java-create-branch" and verdict.change_error is not None


def _tags(place: Place, moment: Moment) -> list[str]:
    allowed = [lines(rows.values()) for rows in (moment.tagged, moment.history[moment.middle])]
    problems = []
    for tag in place.catalog().load_table(TABLE).tags():
        rows = place.rows(tag=tag)
        if tag == "t2" and _other_rows(rows, allowed):
            problems.append("t2 has other rows")
    return problems
