"""Random walks over the branches, tags and history of one table, against a model of its rows.

`python -m tests.fuzz.branch_walk [--seed N] [--minutes M]`: each seed is a table and a walk. lakecore and Java write to
main and to branches; lakecore expires, compacts, rolls back, fast-forwards and removes orphan files; after each step
every branch and every tag must have the rows of the model, for lakecore, and at the end for Java, too.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lakecore
from lakecore.clock import SystemClock
from lakecore.errors import InvalidInputError, LakeError
from lakecore.jobs import compact, expire_snapshots, quarantine, remove_orphan_files
from lakecore.jobs.definitions.repair import Undo
from lakecore.jobs.runner.chore import Report, Safety
from lakecore.jobs.versions import branches, rollback, tags
from lakecore.row.json_rows import json_to_batch
from tests.fuzz.row_lines import inserts, read_lines
from tests.fuzz.walk_loop import changelog_lists, main
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

__all__ = ["Walk"]

_MAIN = "main"
Rows = dict[int, dict[str, Any]]


def _named(branch: str) -> str:
    return "d.t" if branch == _MAIN else f"d.t$branch_{branch}"


@dataclass
class Line:
    """One branch in the model."""

    rows: Rows
    columns: list[str]
    tags: dict[str, tuple[Rows, list[str], int]] = field(default_factory=dict)
    """Rows, columns and the id of the snapshot, by name of the tag."""
    base: int | None = None
    """The snapshot from which the branch was made."""
    history: dict[int, Rows] = field(default_factory=dict)
    """The rows of each snapshot that was the latest after a step, by id."""

    def copy(self) -> Line:
        return Line(dict(self.rows), list(self.columns), dict(self.tags), self.base, dict(self.history))


def _table(dice: random.Random) -> dict[str, Any]:
    """A table with a key or without, as the oracle creates it."""
    options = {"bucket": dice.choice(("1", "2", "-1")), "num-sorted-run.compaction-trigger": "3"}
    keyed = dice.random() < 0.75
    if not keyed and options["bucket"] != "-1":
        options["bucket-key"] = "k"
    vectors = dice.random() < 0.35
    if vectors:
        options["deletion-vectors.enabled"] = "true"
    if keyed and dice.random() < 0.5:
        producers = ("input", "lookup") if vectors else ("input", "lookup", "full-compaction")
        options["changelog-producer"] = dice.choice(producers)
        if dice.random() < 0.5:
            options |= {"changelog-file.prefix": "c-", "changelog.num-retained.min": "2"}
            options["changelog.num-retained.max"] = "5"
    if not vectors and dice.random() < 0.3:
        options["write-only"] = "true"
    for chance, some in (
        (0.3, {"manifest.merge-min-count": "2"}),
        (0.2, {"manifest.full-compaction-threshold-size": "1 b"}),
        (0.2, {"index-file-in-data-file-dir": "true"}),
        (0.2, {"file-index.bloom-filter.columns": "k", "file-index.in-manifest-threshold": "1 b"}),
    ):
        if dice.random() < chance:
            options |= some
    options |= {"file.format": dice.choice(("parquet", "orc", "avro")), "snapshot.num-retained.min": "1"}
    return {
        "columns": ["k INT NOT NULL", "v STRING"],
        "primaryKeys": ["k"] if keyed else [],
        "partitionKeys": [],
        "options": options,
    }


class Walk:
    """One table, its model and the steps on both."""

    def __init__(self, seed: int, oracles: dict[str, Oracle], root: Path) -> None:
        self.dice = random.Random(seed)
        self.oracles = oracles
        self.root = root
        self.catalog = lakecore.load_catalog(str(root))
        self.lines = {_MAIN: Line({}, ["v"])}
        self.number = 0
        self.quarantine = False
        self.removals: list[tuple[str, str, Callable[[], None]]] = []
        """What may be undone: the step, the run and how the model gets back what it removed."""
        self.undone = self.refused = 0
        self.schema = _table(self.dice)
        self.log = [str(self.schema["options"])]
        self.keyed = bool(self.schema["primaryKeys"])
        self.vectors = "deletion-vectors.enabled" in self.schema["options"]
        self.java = self.dice.random() < 0.8
        oracles["new"].create(root, "d.t", self.schema)

    def walk(self, length: int) -> None:
        self._write()
        for _ in range(length):
            step = self.dice.choices(
                (
                    self._write,
                    self._compact,
                    self._tag,
                    self._untag,
                    self._branch,
                    self._unbranch,
                    self._forward,
                    self._roll_back,
                    self._expire,
                    self._orphans,
                    self._add_column,
                    self._remove,
                    self._rename,
                    self._undo,
                ),
                (30, 10, 8, 4, 7, 1.5, 2.5, 2.5, 9, 6, 2.5, 4, 1, 7),
            )[0]
            step()
            self._check()
        self._judge()

    def tally(self) -> Counter[str]:
        return Counter({"removals undone": self.undone, "removals that undo refused": self.refused})

    # --- steps

    def _safety(self) -> Safety:
        """A third of the removals go into the quarantine."""
        keeps = self.dice.random() < 0.33
        self.quarantine |= keeps
        return Safety(quarantine=keeps)

    def _removed(self, report: Report, restore: Callable[[], None]) -> None:
        if report.quarantined and report.run:
            self.removals.append((self.log[-1], report.run, restore))

    def _undo(self) -> None:
        """Back with what one of the last removals took, or a refusal that changes nothing."""
        if not self.removals:
            return
        at = max(0, len(self.removals) - self.dice.randint(1, 3))
        step, run, restore = self.removals[at]
        try:
            quarantine.run(Undo(run_id=run), self.catalog)
        except LakeError as err:
            self._say("undo refused", step, err)
            self.refused += 1
        else:
            self._say("undo", step)
            del self.removals[at]
            restore()
            self.undone += 1
        self._check_history()

    def _any(self) -> str:
        return self.dice.choice(list(self.lines))

    def _by(self) -> str:
        return self.dice.choice(("lake", "lake", "old", "new")) if self.java else "lake"

    def _say(self, *words: object) -> None:
        self.log.append(" ".join(map(str, words)))

    def _write(self) -> None:
        branch, by = self._any(), self._by()
        line = self.lines[branch]
        self.number += 1
        rows: list[dict[str, Any]] = []
        for _ in range(self.dice.randint(1, 5)):
            key = self.dice.randint(0, 9) if self.keyed else self.number * 100 + len(rows)
            if any(row["k"] == key for row in rows):
                continue
            row: dict[str, Any] = {"k": key} | {
                name: f"{branch}-{self.number}-{name}" for name in line.columns
            }
            if self.keyed and key in line.rows and self.dice.random() < 0.25:
                rows.append(line.rows[key] | {"_kind": "-D"})
            else:
                rows.append(row)
        self._say("write", branch, by, rows)
        if by == "lake":
            table = self.catalog.load_table(_named(branch))
            texts = [json.dumps({"_kind": "+I"} | row) for row in rows]
            batch = json_to_batch(texts, table.schema.row_type)
            table.write(batch)
            if self.keyed and self.vectors:
                compact.run(compact.Job(table=_named(branch), strategy=compact.Strategy.FULL), self.catalog)
        else:
            self.oracles[by].write(self.root, _named(branch), rows)
        after = dict(line.rows)
        for row in rows:
            if row.get("_kind") == "-D":
                after.pop(row["k"], None)
            else:
                after[row["k"]] = row
        line.rows = after

    def _remove(self) -> None:
        branch = self._any()
        line = self.lines[branch]
        if self.keyed or not self.vectors or not line.rows:
            return
        key = self.dice.choice(list(line.rows))
        self._say("delete", branch, key)
        self.catalog.load_table(_named(branch)).delete(f"k = {key}")
        line.rows = {k: row for k, row in line.rows.items() if k != key}

    def _compact(self) -> None:
        branch, by, full = self._any(), self._by(), self.dice.random() < 0.5
        self._say("compact", branch, by, full)
        if by == "lake":
            strategy = compact.Strategy.FULL if full else compact.Strategy.UNIVERSAL
            compact.run(compact.Job(table=_named(branch), strategy=strategy), self.catalog)
        else:
            self.oracles[by].compact(self.root, _named(branch), full=full)

    def _latest(self, branch: str) -> int | None:
        snapshot = self.catalog.load_table(_named(branch)).latest_snapshot()
        return None if snapshot is None else snapshot.id

    def _tag(self) -> None:
        branch = self._any()
        latest = self._latest(branch)
        if latest is None:
            return
        self.number += 1
        name = f"t{self.number}"
        by = self._by()
        if branch != _MAIN:
            by = "lake"
        self._say("tag", branch, by, name)
        if by == "lake":
            tags.run(tags.CreateTag(table=_named(branch), tag=name), self.catalog)
        else:
            self.oracles[by].call("create-tag", self.root, _named(branch), name)
        line = self.lines[branch]
        scan = self.catalog.load_table(_named(branch)).scan(tag=name)
        line.tags[name] = (dict(line.rows), list(scan.row_type.names[1:]), latest)

    def _untag(self) -> None:
        branch = self._any()
        line = self.lines[branch]
        if not line.tags:
            return
        name = self.dice.choice(list(line.tags))
        self._say("untag", branch, name)
        job = tags.DeleteTag(table=_named(branch), tags=(name,), safety=self._safety())
        before = line.tags.pop(name)
        self._removed(tags.run(job, self.catalog), lambda: line.tags.update({name: before}))

    def _branch(self) -> None:
        if len(self.lines) > 3:
            return
        main = self.lines[_MAIN]
        self.number += 1
        name = f"b{self.number}"
        by = self.dice.choice(("lake", "new")) if self.java else "lake"
        if main.tags and self.dice.random() < 0.85:
            tag = self.dice.choice(list(main.tags))
            rows, columns, base = main.tags[tag]
            new = Line(dict(rows), list(columns), {tag: (dict(rows), list(columns), base)}, base)
        else:
            tag, new = None, Line({}, list(main.columns))
        self._say("branch", by, name, tag)
        if by == "lake":
            branches.run(branches.CreateBranch(table="d.t", branch=name, tag=tag), self.catalog)
        else:
            self.oracles[by].call("create-branch", self.root, "d.t", name, *(["--tag", tag] if tag else []))
        self.lines[name] = new

    def _others(self) -> list[str]:
        return [name for name in self.lines if name != _MAIN]

    def _unbranch(self) -> None:
        if others := self._others():
            name = self.dice.choice(others)
            self._say("unbranch", name)
            job = branches.DeleteBranch(table="d.t", branch=name, safety=self._safety())
            before = self.lines.pop(name)
            self._removed(branches.run(job, self.catalog), lambda: self.lines.update({name: before}))

    def _rename(self) -> None:
        if others := self._others():
            name = self.dice.choice(others)
            self.number += 1
            self._say("rename", name)
            new = f"r{self.number}"
            branches.run(branches.RenameBranch(table="d.t", branch=name, target_branch=new), self.catalog)
            self.lines[new] = self.lines.pop(name)

    def _forward(self) -> None:
        others = [name for name in self._others() if self.lines[name].base is not None]
        if not others:
            return
        name = self.dice.choice(others)
        line, main = self.lines[name], self.lines[_MAIN]
        self._say("fast-forward", name)
        earliest = self.catalog.load_table(_named(name))._stores.snapshots.earliest()
        assert earliest is not None
        before = {tag: one for tag, one in main.tags.items() if one[2] < earliest.id}
        earlier = main.copy()
        report = branches.run(
            branches.FastForward(table="d.t", branch=name, safety=self._safety()), self.catalog
        )
        self._removed(report, lambda: self._back_to(_MAIN, earlier, earlier.columns))
        main.rows, main.columns = dict(line.rows), list(line.columns)
        first = earliest.id  # snapshots of main before it stay, also where the branch had some that expired
        stay = {at: rows for at, rows in main.history.items() if at < first}
        main.history = stay | {at: rows for at, rows in line.history.items() if at >= first}
        stores = self.catalog.load_table("d.t")._stores
        listed = set(stores.tags.list())
        must = set(before) | set(line.tags)
        if not must <= listed:
            raise AssertionError(f"tags lost: {must - listed}")
        known = main.tags | before | line.tags
        main.tags = {tag: known[tag] for tag in listed}

    def _roll_back(self) -> None:
        branch = self._any()
        line = self.lines[branch]
        if not line.tags:
            return
        name = self.dice.choice(list(line.tags))
        self._say("rollback", branch, name)
        earlier = line.copy()
        job = rollback.RollbackTo(table=_named(branch), tag=name, safety=self._safety())
        rows, _, base = line.tags[name]
        try:
            report = rollback.run(job, self.catalog)
        except InvalidInputError:  # the tag was restored after a rollback beyond it
            again = rollback.RollbackToAsLatest(table=_named(branch), tag=name)
            rollback.run(again, self.catalog)
            line.rows = dict(rows)
            return
        self._removed(report, lambda: self._back_to(branch, earlier, self.lines[branch].columns))
        line.rows = dict(rows)
        line.tags = {tag: one for tag, one in line.tags.items() if one[2] <= base}
        line.history = {at: rows for at, rows in line.history.items() if at <= base}

    def _back_to(self, branch: str, earlier: Line, columns: list[str]) -> None:
        """The rows and tags of before, with these columns; tags that were created since stay."""
        line = self.lines[branch]
        line.rows, line.columns = earlier.rows, list(columns)
        line.tags = line.tags | earlier.tags
        line.history = line.history | earlier.history

    def _expire(self) -> None:
        branch, kept = self._any(), self.dice.randint(1, 3)
        self._say("expire", branch, kept)
        job = expire_snapshots.Job(table=_named(branch), retain_max=kept, retain_min=1, safety=self._safety())
        self._removed(expire_snapshots.run(job, self.catalog), lambda: None)

    def _orphans(self) -> None:
        self._say("orphans")
        time.sleep(0.002)  # only files older than a whole millisecond may be removed
        job = remove_orphan_files.Job(
            table="d.t", older_than_ms=SystemClock().now_ms() - 1, allow_empty=True, safety=self._safety()
        )
        self._removed(remove_orphan_files.run(job, self.catalog), lambda: None)

    def _add_column(self) -> None:
        branch = self._any()
        line = self.lines[branch]
        if len(line.columns) > 3:
            return
        self.number += 1
        name = f"c{self.number}"
        self._say("add", branch, name)
        self.catalog.alter_table(_named(branch), [{"op": "add", "name": name, "type": "STRING"}])
        line.columns = [*line.columns, name]

    # --- checks

    def _check(self) -> None:
        for branch, line in self.lines.items():
            table = self.catalog.load_table(_named(branch))
            self._same(f"{branch}", read_lines(table.scan()), _lines(line.rows, line.columns))
            if (latest := table.latest_snapshot()) is not None:
                line.history[latest.id] = dict(line.rows)
            for tag, (rows, _columns, _) in line.tags.items():
                scan = table.scan(tag=tag)
                columns = list(scan.row_type.names[1:])
                self._same(f"{branch}@{tag}", read_lines(scan), _lines(rows, columns))

    def _check_history(self) -> None:
        """Every snapshot that there is has the rows which it had."""
        for branch, line in self.lines.items():
            table = self.catalog.load_table(_named(branch))
            for at in table._stores.snapshots.list_ids():
                scan = table.scan(snapshot=at)
                lines, columns = read_lines(scan), list(scan.row_type.names[1:])
                if at in line.history:
                    self._same(f"{branch}:{at}", lines, _lines(line.history[at], columns))

    def _same(self, place: str, is_now: list[str], wanted: list[str]) -> None:
        if is_now != wanted:
            raise AssertionError(f"{place}: {is_now} instead of {wanted}")

    def _judge(self) -> None:
        """Java reads the same rows, and its fsck finds nothing but what its own chores leave as well."""
        self._check_history()
        self._orphans()
        self._check_history()
        for name, judge in self.oracles.items():
            for branch, line in self.lines.items():
                if self._latest(branch) is not None:
                    rows = inserts(canonical(judge.read(self.root, _named(branch))))
                    self._same(f"{name}: {branch}", rows, _lines(line.rows, line.columns))
            if bad := {
                text for text in findings(judge.fsck(self.root, "d.t", deep=False)) if self._is_bad(text)
            }:
                raise AssertionError(f"fsck of {name}: {bad}")

    def _is_bad(self, finding: str) -> bool:
        """Not bad are files in the quarantine, a new branch without hints, and a tag (or a branch made from
        one) whose changelog expired: Java leaves all three, too.
        """
        if finding.startswith("orphan"):
            return not self.quarantine
        if "DV for non-live data file" in finding and self.vectors:
            return not self.java  # compactions of Java leave vectors of files that they removed
        return "missing hint LATEST" not in finding and not any(
            name in finding for name in changelog_lists(self.root)
        )


def _lines(rows: Rows, columns: list[str]) -> list[str]:
    texts = (json.dumps({"k": row["k"]} | {name: row.get(name) for name in columns}) for row in rows.values())
    return inserts(canonical(texts))


if __name__ == "__main__":
    main(Walk, __doc__, 25)
