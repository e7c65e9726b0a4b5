"""What is compared once a history is over: old states, tags, branches, changes and files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakecore.fs.local import LocalFileIO
from lakecore.store.paths import TablePaths
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.fuzz.failures import Failed, TwinBrokenError, difference
from tests.fuzz.history import FORK, LAKE, NEW, Step
from tests.fuzz.java_steps import reason
from tests.fuzz.replay import replayed
from tests.fuzz.row_lines import changed_lines, inserts, line
from tests.support.golden import canonical
from tests.support.oracle import Oracle, OracleError, findings

if TYPE_CHECKING:
    from tests.fuzz.play import Player

__all__ = ["EndChecks"]

MAIN, TWIN = "d.t", "d.twin"
_WITHOUT_A_CHANGELOG = ("overwrite", "rollback", "drop", "alter")
"""Steps after which a replay of the change stream is not the table, or not in its columns."""

_NO_HINT = ": missing hint LATEST"
_NO_LIST = ": missing manifest list"


class EndChecks:
    """The checks of one play. Each raises Failed."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.history = player.history
        self.warehouse = player.warehouse

    def run(self) -> None:
        self._travel()
        self.player.lake("tags", self._tags)
        self.player.lake("branches", self._branches)
        self.stream()
        self._changes()
        self._replay()
        self._remove_orphans()
        self._files()

    def _table(self) -> Any:
        return self.player.catalog.load_table(MAIN)

    def _read(self, **at: Any) -> list[str]:
        return self.player.way.read(self.player.catalog, MAIN, **at)

    def _travel(self) -> None:
        """Two of the snapshots, read by both."""
        snapshots = self._table()._stores.snapshots
        earliest, latest = snapshots.earliest(), snapshots.latest_id()
        if latest is None or earliest is None:
            return
        for snapshot in {earliest.id, (earliest.id + latest) // 2}:
            try:
                right = inserts(self.player.oracles[NEW].read(self.warehouse, MAIN, snapshot=snapshot))
            except OracleError as err:
                self.player.played.left_out[f"travel: {reason(err)}"] += 1
                continue
            self.player.lake("travel", partial(self._compare_snapshot, snapshot, right))

    def _compare_snapshot(self, snapshot: int, right: list[str]) -> None:
        ours = self._read(snapshot=snapshot)
        if ours != right:
            text = f"snapshot {snapshot}: {difference(ours, right, 'lakecore', 'java')}"
            raise Failed("lakecore travels to other rows", self.player.number, text)

    def _tags(self) -> None:
        """Each tag, read by both; the same tag of the twin, which was made after the same step."""
        table = self._table()
        for name in table._stores.tags.list():
            right = self._tagged_rows(MAIN, name)
            ours = self._read(tag=name)
            if ours != right:
                text = f"{name}: {difference(ours, right, 'lakecore', 'java')}"
                raise Failed("lakecore reads a tag differently", self.player.number, text)
            if self.history.judge == FORK or self.player.hides_rows:
                continue
            twin = self._tagged_rows(TWIN, name)
            if _columns(right) == _columns(twin) and right != twin:
                text = f"{name}: {difference(right, twin, 'here', 'twin')}"
                raise Failed("tags differ from the twin", self.player.number, text)

    def _tagged_rows(self, table: str, name: str) -> list[str]:
        return self.player.java_rows(self.player.reader, table, tag=name)

    def _branches(self) -> None:
        table = self._table()
        for name in table._stores.branches.list():
            right = self.player.java_rows(self.player.reader, MAIN, branch=name)
            ours = self._read(branch=name)
            if ours != right:
                text = f"{name}: {difference(ours, right, 'lakecore', 'java')}"
                raise Failed("lakecore reads a branch differently", self.player.number, text)

    def stream(self) -> None:
        """Both tell the same changes since the last comparison, plan by plan."""
        table, followed = self._table(), self.player.stream
        latest = table._stores.snapshots.latest_id() or 0
        if latest < followed.next_snapshot:
            return
        first = followed.next_snapshot
        try:
            plans = self.player.oracles[NEW].call("stream", self.warehouse, MAIN, "--from-snapshot", first)
        except OracleError as err:
            self.player.played.left_out[f"stream: {reason(err)}"] += 1
            followed.skip_to(latest + 1)
            return
        if not self.player.lake("stream", lambda: followed.compare(table, plans, self.player.number)):
            followed.whole = False
        followed.next_snapshot = latest + 1

    def _changes(self) -> None:
        """What happened between two snapshots, in each of the modes."""
        snapshots = self._table()._stores.snapshots
        earliest, latest = snapshots.earliest(), snapshots.latest_id()
        if earliest is None or latest is None or earliest.id == latest:
            return
        for mode in ("delta", "changelog", "diff"):
            options = {
                "incremental-between": f"{earliest.id},{latest}",
                "incremental-between-scan-mode": mode,
            }
            try:
                rights = [self._java_changes(version, options) for version in self._judges_of(mode)]
            except OracleError as err:
                self.player.played.left_out[f"changes: {reason(err)}"] += 1
                continue
            if len(set(map(tuple, rights))) == 1:
                self.player.lake("changes", partial(self._compare_changes, options, rights[0]))
            else:
                self.player.played.left_out[f"changes: {mode} has no judge"] += 1

    def _judges_of(self, mode: str) -> tuple[str, ...]:
        """The releases often disagree about `diff` where reads skip level 0: they judge when they agree."""
        if mode != "diff" or not self.player.skips_level_0:
            return (NEW,)
        return () if self.player.old == NEW else (self.player.old, NEW)

    def _java_changes(self, version: str, options: Mapping[str, str]) -> list[str]:
        flags = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
        return sorted(map(line, self.player.oracles[version].call("read", self.warehouse, MAIN, *flags)))

    def _compare_changes(self, options: Mapping[str, str], right: list[str]) -> None:
        scan = self.player.catalog.load_table(MAIN, options).scan()
        ours = sorted(changed_lines(scan.to_batches(kinds=True), scan))
        if ours != right:
            text = f"{options}: {difference(ours, right, 'lakecore', 'java')}"
            raise Failed("changes differ", self.player.number, text)

    def _replay(self) -> None:
        """Who follows the change stream from the beginning has the rows of the table after a full compaction."""
        if not self._can_replay():
            return
        step = Step("compact", LAKE, full=True)
        if not self.player.do_unjudged(step):
            return
        self.stream()
        self.player.lake("replay", self._compare_replay)

    def _can_replay(self) -> bool:
        steps = self.history.steps
        if not self.player.stream.whole or any(step.op in _WITHOUT_A_CHANGELOG for step in steps):
            return False
        options = self.history.table["options"]
        if "changelog-producer.row-deduplicate-ignore-fields" in options:
            return False  # changes of these columns alone are left out
        return options.get("changelog-producer") in ("lookup", "full-compaction")

    def _compare_replay(self) -> None:
        player = self.player
        rows, problems = replayed(player.stream.changes, self.history.table["primaryKeys"])
        if problems:
            raise Failed("the change stream contradicts itself", player.number, str(problems[:3]))
        right = player.java_rows(player.reader, MAIN)
        if (ours := inserts(canonical(rows))) != right:
            text = difference(ours, right, "replayed", "read")
            raise Failed("the change stream leads to other rows", player.number, text)

    def _remove_orphans(self) -> None:
        """What a rollback or the end of a branch leaves, and an overwrite by Java: its own changelog files."""
        java = any(step.op == "overwrite" and step.by != LAKE for step in self.history.steps)
        if java or any(step.op in ("rollback", "unbranch") for step in self.history.steps):
            self.player.do_unjudged(Step("orphans", LAKE))

    def _files(self) -> None:
        """Findings that the twin does not have as well."""
        found = self._lake_findings("t")
        forks = self.history.judge == FORK
        if found and (forks or not self._lake_findings("twin")):
            raise Failed("lakecore fsck", self.player.number, str(found[:3]))
        java = self.player.oracles[self.player.reader]
        left_by_java = {path.name for path in self.warehouse.rglob("*.index") if _is_index_of_nothing(path)}
        problems = {text for text in self._java_findings(java) if not _is_common(text)}
        problems -= {f"orphan: {name}" for name in left_by_java if self._has_java}
        if problems and (forks or not findings(java.fsck(self.warehouse, TWIN))):
            text = f"{java.version}: {sorted(problems)[:3]}"
            raise Failed("java fsck", self.player.number, text)

    def _java_findings(self, java: Oracle) -> set[str]:
        try:
            return findings(java.fsck(self.warehouse, MAIN))
        except OracleError as err:
            if self.history.judge != FORK:
                try:
                    java.fsck(self.warehouse, TWIN)
                except OracleError as same:
                    raise TwinBrokenError(str(same)) from err
            raise Failed("java fsck", self.player.number, f"{java.version}: {err}") from err

    def _lake_findings(self, name: str) -> list[Any]:
        path = TablePaths(f"{self.warehouse}/d.db/{name}")
        found = fsck(LocalFileIO(), path, now_ms=0, deep=True, read_data=True).findings
        orphans = {
            finding.path
            for finding in found
            if finding.kind is FindingKind.ORPHAN
            and self._has_java
            and _is_index_of_nothing(Path(finding.path))
        }
        return [finding for finding in found if finding.path not in orphans]

    @property
    def _has_java(self) -> bool:
        return any(step.by != LAKE for step in self.history.steps)


def _columns(lines: list[str]) -> set[str]:
    """A tag has the schema of its snapshot: that of the twin is an older one where the twin's compaction had
    nothing to do after a column was added.
    """
    return {name for text in lines[:1] for name in json.loads(text)}


def _is_index_of_nothing(path: Path) -> bool:
    """A compaction by Java that writes a file and drops it again leaves the file's index behind."""
    named_as_java = re.fullmatch(r"data-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+\..*\.index", path.name)
    return bool(named_as_java) and not path.with_suffix("").exists()


def _is_common(finding: str) -> bool:
    """What the oracle finds in tables that Java alone wrote: branches have no hint, and an expiry removes the
    changes of a snapshot that a tag keeps. (What else a tag needs is read.)
    """
    hint = finding.endswith(_NO_HINT) and "main:" not in finding
    return hint or (": tag " in finding and _NO_LIST in finding)
