"""Plays a history on the table `d.t`, where lakecore and Java take turns.

The judge is either a twin, `d.twin`, where Java does all, or for each step of lakecore a fork: a copy of the
table where Java does that step. After every step lakecore and Java read the same rows from `d.t`, and these are
the judge's; keys are looked up, and have the same rows; at the end streams are equal and both checks of files find nothing. A step that Java refuses on
the judge is left out; one that lakecore refuses (UnsupportedError) is counted, and Java does it instead.
"""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.metadata.option_rules.checks import check_new_option
from tests.fuzz.end_checks import EndChecks
from tests.fuzz.failures import Failed, TwinBrokenError, difference
from tests.fuzz.forks import copy_table
from tests.fuzz.history import FORK, LAKE, NEW, OLD, History, Step
from tests.fuzz.java_steps import java_step, reason, without_names
from tests.fuzz.lake_steps import condition, lake_step
from tests.fuzz.lookups import Lookups
from tests.fuzz.newest import knows_only_newest
from tests.fuzz.row_lines import inserts
from tests.fuzz.streams import Followed
from tests.fuzz.ways import IN_PROCESS, Way
from tests.support.oracle import Oracle, OracleError

__all__ = ["Played", "Player", "play"]

MAIN, TWIN = "d.t", "d.twin"
_ALONE = {"lakecore.commit.settle-time": "1 ms"}
"""Java and lakecore take turns: nobody commits while a commit waits."""
_NO_ROWS = ("expire", "tag", "untag", "branch", "unbranch", "orphans")
"""Steps that leave the rows of the table as they are."""
_ALWAYS = ("write", "overwrite", "compact", "delete", "expire", "orphans")
"""Steps that Java has no reason to refuse, so that a refusal without a judge is a finding."""


@dataclass
class Played:
    """What was done. `done`: (who, op); `refused`: what lakecore would not do; `left_out`: what Java would not."""

    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


def play(history: History, oracles: Mapping[str, Oracle], way: Way = IN_PROCESS) -> Played:
    """`way`: how lakecore writes and reads. Raises Failed, TwinBrokenError."""
    with tempfile.TemporaryDirectory(prefix="lakecore-fuzz-") as folder:
        return Player(history, oracles, Path(folder), way).run()


class Player:
    """One play of one history, in a warehouse of its own."""

    def __init__(
        self, history: History, oracles: Mapping[str, Oracle], warehouse: Path, way: Way = IN_PROCESS
    ) -> None:
        self.history = history
        self.way = way
        self.oracles = oracles
        self.warehouse = warehouse
        self.catalog = load_catalog(str(warehouse), **{"local.fsync": "false"})
        self.played = Played()
        self.number = 0
        self.options = dict(history.table["options"])
        self.keyed = bool(history.table["primaryKeys"])
        self.dynamic = self.keyed and self.options["bucket"] == "-1"
        self.postponed = self.options.get("bucket") == "-2"
        self.forks = history.judge == FORK
        self.users = itertools.count(1)
        self.old = NEW if knows_only_newest(history.table) else OLD
        self.rows: list[str] | None = []
        self.fresh = False
        self.stream = Followed()
        self.lookups = Lookups()

    def run(self) -> Played:
        try:
            return self._run()
        finally:
            self.lookups.close()

    def _run(self) -> Played:
        creator = (self.old, NEW)[self.history.seed % 2]
        try:
            self.oracles[creator].create(self.warehouse, TWIN, _twin(self.history.table))
        except OracleError as err:
            self.played.left_out[f"create: {reason(err)}"] += 1
            return self.played
        self._create(creator)
        checks = EndChecks(self)
        for number, step in enumerate(self.history.steps):
            self.number = number
            if _ends_a_stream(step):
                checks.stream()
            if self._step(step):
                self._compare(step)
        if not self.forks:
            self._compare_twin()
        self.number = -1
        checks.run()
        return self.played

    def _create(self, creator: str) -> None:
        """Java writes the schema of `d.t`; lakecore would have made the same one, but for options that it does not set."""
        table = {**self.history.table, "options": {**self.history.table["options"], **_ALONE}}
        is_ours = self.history.seed % 3 == 0 and _is_settable(table["options"])
        if is_ours and self.lake("create", lambda: self.catalog.create_table(MAIN, table)):
            return
        self._java(creator, "create", lambda java: java.create(self.warehouse, MAIN, table))

    def _step(self, step: Step) -> bool:
        """Do it, on the twin too; False: it was left out."""
        if not self._is_about_something(step):
            self.played.left_out[f"{step.op}: what it is about was left out"] += 1
            return False
        step = self._possible(step)
        done = self._forked_step(step) if self.forks else self._twin_step(step)
        if done:
            self._remember(step)
        return done

    def _is_about_something(self, step: Step) -> bool:
        """Whether the tag or branch that the step names is there: a step that made it may have been left out."""
        table = self.catalog.load_table(MAIN)
        match step.op:
            case "tag":
                return table._stores.snapshots.latest_id() is not None
            case "untag" | "rollback":
                return step.name in table._stores.tags.list()
            case "branch":
                return step.tag in table._stores.tags.list()
            case "unbranch":
                return step.name in table._stores.branches.list()
        return True

    def _possible(self, step: Step) -> Step:
        """The step by somebody who can do it."""
        if self.dynamic and step.op in ("write", "overwrite"):
            return replace(step, by=LAKE)  # Java's API wants buckets from the caller
        if self.postponed and step.op == "compact":
            return replace(step, by=LAKE)  # Java's core has no such compaction
        return step

    def _remember(self, step: Step) -> None:
        change = step.change or {}
        if change.get("op") == "set":
            self.options[change["key"]] = change["value"]
        if step.op == "rollback":
            latest = self.catalog.load_table(MAIN)._stores.snapshots.latest_id() or 0
            self.stream.skip_to(latest + 1)

    # ------------------------------------------------------------ a twin that Java maintains

    def _twin_step(self, step: Step) -> bool:
        by = self.old if step.by == LAKE else step.by
        try:
            self._java_steps(by, TWIN, step)
        except OracleError as err:
            self.played.left_out[f"{step.op}: {reason(err)}"] += 1
            self._end_if_broken(step)
            return False
        if step.by == LAKE and self._lake_step(step):
            return True
        if (self.dynamic and step.op in ("write", "overwrite")) or (self.postponed and step.op == "compact"):
            raise TwinBrokenError(f"{step.op} of buckets that Java's core does not assign")
        self._java(by, step.op, lambda java: java_step(java, self.warehouse, MAIN, step))
        return True

    def _java_steps(self, by: str, name: str, step: Step, *, write_only: bool = False) -> None:
        """The step on a judge, and what comes between: a write after it, a compaction before."""
        other = step.meanwhile
        if other is not None and other.op == "compact":
            java_step(self.oracles[other.by], self.warehouse, name, other)
        java_step(self.oracles[by], self.warehouse, name, step, write_only=write_only)
        if other is not None and other.op != "compact":
            java_step(self.oracles[other.by], self.warehouse, name, other, write_only=write_only)

    def _end_if_broken(self, step: Step) -> None:
        """Java may have done half of the step to the twin: its rows must be what they were."""
        twins, ours = (self.java_rows(self.old, name) for name in (TWIN, MAIN))
        if ours != twins:
            raise TwinBrokenError(f"{step}")

    # ------------------------------------------------------------ a fork for each step of lakecore

    def _forked_step(self, step: Step) -> bool:
        by = self.reader if step.by == LAKE else step.by
        if step.by != LAKE or step.op in _NO_ROWS:
            return self._alone(step, by)
        fork = f"d.f{self.number}"
        folder = self.warehouse / "d.db"
        copy_table(folder / "t", folder / fork[2:])
        try:
            since = self._latest(fork)
            try:
                self._java_steps(by, fork, step, write_only=True)
            except OracleError as err:
                self.played.left_out[f"{step.op}: {reason(err)}"] += 1
                return False
            if not self._lake_step(step):
                return self._alone(replace(step, by=by), by)
            self._compare_fork(step, fork, since)
        finally:
            shutil.rmtree(folder / fork[2:])
        return True

    def _alone(self, step: Step, by: str) -> bool:
        """A step without a judge: rows that lakecore and Java read are compared all the same."""
        if step.by == LAKE and self._lake_step(step):
            return True
        try:
            only = step.op == "overwrite"  # one that compacts leaves changelog files that nothing refers to
            java_step(self.oracles[by], self.warehouse, MAIN, step, write_only=only)
        except OracleError as err:
            if step.op in _ALWAYS:
                raise Failed(f"java {step.op}", self.number, f"{by}: {err}") from err
            self.played.left_out[f"{step.op}: {reason(err)}"] += 1
            if step.op == "branch":  # Java leaves what it had of it, which is damage
                shutil.rmtree(
                    self.warehouse / "d.db" / "t" / "branch" / f"branch-{step.name}", ignore_errors=True
                )
            return False
        self.played.done[f"{by} {step.op}"] += 1
        return True

    def _compare_fork(self, step: Step, fork: str, since: int) -> None:
        compacts = step.op == "compact"
        if compacts and self.hides_rows and not self._leaves_the_same(step):
            return
        right, ours = (self.java_rows(self.reader, name) for name in (fork, MAIN))
        self.rows, self.fresh = ours, True
        if ours != right:
            text = difference(ours, right, "here", "java's copy")
            raise Failed("rows differ from java's step", self.number, text)
        if compacts and not step.partial and not step.meanwhile and self._announces(step):
            right, ours = (self._changes_since(name, since) for name in (fork, MAIN))
            if ours != right:
                text = difference(ours, right, "here", "java's copy")
                raise Failed("announced changes differ from java's", self.number, text)

    @property
    def _gentle(self) -> bool:
        """Whether compactions may leave rows of level 0."""
        return self.options.get("lookup-compact") == "gentle"

    def _announces(self, step: Step) -> bool:
        """Whether a compaction announces all changes so far, whatever files it picks."""
        producer = self.options.get("changelog-producer")
        return (producer == "lookup" and not self._gentle) or (producer == "full-compaction" and step.full)

    def _changes_since(self, name: str, since: int) -> list[str]:
        latest = self._latest(name)
        if latest == since:
            return []
        named = {"incremental-between": f"{since},{latest}", "incremental-between-scan-mode": "changelog"}
        rows = self.oracles[self.reader].read(self.warehouse, name, options=named)
        return sorted(rows)

    def _latest(self, name: str) -> int:
        return self.catalog.load_table(name)._stores.snapshots.latest_id() or 0

    # ------------------------------------------------------------ who does a step

    def lake(self, op: str, work: Callable[[], Any]) -> bool:
        """Whether lakecore did it. Any other error than a refusal is a finding."""
        try:
            work()
        except UnsupportedError as err:
            self.played.refused[f"{op}: {without_names(str(err))}"] += 1
            return False
        except (Failed, OracleError, TwinBrokenError):
            raise
        except Exception as err:
            raise Failed(f"lakecore {op} {type(err).__name__}", self.number, str(err)) from err
        self.played.done[f"{LAKE} {op}"] += 1
        return True

    def do_unjudged(self, step: Step) -> bool:
        """A step at the end, by lakecore; False when it refuses. A twin has it, too, if Java does it."""
        if not self.forks:
            with suppress(OracleError):
                java_step(self.oracles[NEW], self.warehouse, TWIN, step)
        return self._lake_step(step)

    def _lake_step(self, step: Step) -> bool:
        return self.lake(step.op, lambda: self._by_lake(step))

    def _by_lake(self, step: Step) -> None:
        other = step.meanwhile
        came = []

        def between() -> None:
            if other is not None and not came:
                came.append(other)
                java = self.oracles[other.by]
                java_step(java, self.warehouse, MAIN, other, write_only=other.op == "write")

        report = lake_step(
            self.catalog, MAIN, step, f"fuzz-{next(self.users)}", between, write=self.way.write
        )
        between()  # nothing to compact
        disturbed = other is not None and other.op == "compact"
        if step.op == "compact" and report.dropped and not disturbed:
            raise Failed("lakecore drops picks that nobody disturbs", self.number, str(report.dropped))
        if other is not None:
            self.played.done[f"{other.by} {other.op} before a commit of {LAKE}"] += 1

    def _java(self, by: str, op: str, work: Callable[[Oracle], Any]) -> None:
        try:
            work(self.oracles[by])
        except OracleError as err:
            raise Failed(f"java {op}", self.number, f"{by} did it on the twin, but here: {err}") from err
        self.played.done[f"{by} {op}"] += 1

    # ------------------------------------------------------------ rows after each step

    @property
    def reader(self) -> str:
        """The Java that reads now: in turns."""
        return (self.old, NEW)[(self.history.seed + self.number) % 2]

    def _compare(self, step: Step) -> None:
        """Every second step of Java is looked at together with the next one, which halves the time it takes."""
        if step.by != LAKE and step.op not in _NO_ROWS and self.number % 2:
            self.rows = None
            return
        right = self.rows if self.fresh and self.rows is not None else self.java_rows(self.reader, MAIN)
        self.fresh = False
        if step.by == LAKE and not self.forks:
            self._compare_twin(right, step)
        if step.op in _NO_ROWS and self.rows is not None and right != self.rows:
            text = difference(right, self.rows, "after", "before")
            raise Failed(f"{step.op} changes rows", self.number, text)
        self.rows = right
        self.lake("read", lambda: self._compare_read(right))

    def _compare_twin(self, right: list[str] | None = None, step: Step | None = None) -> None:
        """Rows of level 0 that are not read yet come with a compaction, which Java's writers do themselves."""
        if self.hides_rows and not (step and self._takes_all_up(step)):
            return
        twin = self.java_rows(self.reader, TWIN)
        right = self.java_rows(self.reader, MAIN) if right is None else right
        if right != twin:
            text = difference(right, twin, "here", "twin")
            raise Failed("rows differ from the twin", self.number, text)

    def _leaves_the_same(self, step: Step) -> bool:
        """Whether rows of level 0 after the step are those of the judge. A universal compaction by lakecore
        looks again after its commit, and takes up what was written meanwhile if that is worth it.
        """
        written = step.meanwhile is not None and step.meanwhile.op == "write"
        return self._takes_all_up(replace(step, meanwhile=None)) and (step.full or not written)

    def _takes_all_up(self, step: Step) -> bool:
        """Whether no row of level 0 is left after the step, by whomever and whatever files are picked."""
        whole = step.op == "compact" and not step.partial and not step.meanwhile
        return whole and (step.full or not self._gentle)

    @property
    def hides_rows(self) -> bool:
        """Whether rows that were written are not read before a compaction."""
        return self.skips_level_0 or self.postponed

    @property
    def skips_level_0(self) -> bool:
        """Whether a batch read leaves out files of level 0."""
        skips = self.options.get("merge-engine") == "first-row" or "deletion-vectors.enabled" in self.options
        return self.keyed and skips

    def _compare_read(self, right: list[str]) -> None:
        ours = self.way.read(self.catalog, MAIN)
        if ours != right:
            text = difference(ours, right, "lakecore", "java")
            raise Failed("lakecore reads other rows", self.number, text)
        if self.number % 3 == 0:
            self._check_condition(right)
        if self.keyed and right:
            self.lake("look up", lambda: self.lookups.check(self.catalog.load_table(MAIN), self.number))

    def _check_condition(self, right: list[str]) -> None:
        """Rows of a condition are those of all rows for which it holds, whatever indexes left out."""
        rows = [row for text in right if (row := json.loads(text)).get("k") is not None]
        table = self.catalog.load_table(MAIN)
        kind = str(table.schema.row_type.field("k").type).removesuffix(" NOT NULL")
        if not rows or kind not in ("INT", "BIGINT", "SMALLINT", "STRING"):
            return
        value = rows[self.history.seed % len(rows)]["k"]
        ours = self.way.read(self.catalog, MAIN, where=condition(table, {"k": value}))
        wanted = sorted(text for text in right if json.loads(text).get("k") == value)
        if ours != wanted:
            text = f"k = {value!r}: {difference(ours, wanted, 'lakecore', 'of all rows')}"
            raise Failed("a condition finds other rows", self.number, text)

    def java_rows(self, version: str, name: str, **at: object) -> list[str]:
        """Rows that Java reads; a table of its own that it cannot read is no judge."""
        try:
            return inserts(self.oracles[version].read(self.warehouse, name, **at))
        except OracleError as err:
            if name != MAIN:
                raise TwinBrokenError(str(err)) from err
            raise Failed("java cannot read", self.number, f"{version}: {at} {err}") from err


def _ends_a_stream(step: Step) -> bool:
    """Whether what was announced before the step cannot be read after it, or is read differently."""
    return step.op in ("expire", "rollback") or (step.change or {}).get("key") == "changelog-producer"


def _is_settable(options: Mapping[str, str]) -> bool:
    """Whether lakecore sets all these options: it obeys them."""
    try:
        for key, value in options.items():
            check_new_option(key, value)
    except InvalidOptionError:
        return False
    return True


def _twin(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same table, with one bucket in place of dynamic ones: keys that move between partitions need none.

    Rows that others put off get their buckets at once.
    """
    options = dict(table["options"])
    if options.get("bucket") == "-2":
        return {**table, "options": {**options, "bucket": options.get("postpone.default-bucket-num", "1")}}
    if not table["primaryKeys"] or options["bucket"] != "-1":
        return table
    options["bucket"] = "1"
    across = not set(table["partitionKeys"]) <= set(table["primaryKeys"])
    return {**table, "options": options, "partitionKeys": [] if across else table["partitionKeys"]}
