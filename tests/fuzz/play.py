"""Plays a history on two tables: `d.t`, where lakecore and Java take turns, and `d.twin`, where Java does all.

After every step lakecore and Java read the same rows from `d.t`, and these are the rows of the twin; at the end
streams are equal and both checks of files find nothing. A step that Java refuses on the twin is left out; one
that lakecore refuses (UnsupportedError) is counted, and Java does it instead.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import UnsupportedError
from lakecore.fs.local import LocalFileIO
from lakecore.jobs import compact, expire_snapshots, tags
from lakecore.metadata.row_kind import RowKind
from lakecore.row.json_rows import batch_to_json, json_to_batch
from lakecore.store.paths import TablePaths
from lakecore.table import Table
from lakecore.verify.fsck import fsck
from tests.fuzz.history import LAKE, NEW, OLD, History, Step
from tests.fuzz.newest import knows_only_newest
from tests.support.golden import canonical
from tests.support.oracle import Oracle, OracleError, findings
from tests.support.serialized_sets import meaning

__all__ = ["Failed", "Played", "TwinBrokenError", "play"]

MAIN, TWIN = "d.t", "d.twin"
_BYTES = re.compile(r'"0x([0-9a-f]+)"')


class Failed(Exception):
    """Something differs: `kind` for telling failures apart, `step` its number (-1: at the end)."""

    def __init__(self, kind: str, step: int, detail: str) -> None:
        super().__init__(f"step {step}: {kind}: {detail}")
        self.kind = kind
        self.step = step


@dataclass
class Played:
    """What was done. `done`: (who, op); `refused`: what lakecore would not do; `left_out`: what Java would not."""

    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


def play(history: History, oracles: Mapping[str, Oracle]) -> Played:
    """Raises Failed."""
    with tempfile.TemporaryDirectory(prefix="lakecore-fuzz-") as folder:
        return _Player(history, oracles, Path(folder)).run()


class _Player:
    def __init__(self, history: History, oracles: Mapping[str, Oracle], warehouse: Path) -> None:
        self.history = history
        self.oracles = oracles
        self.warehouse = warehouse
        self.catalog = load_catalog(str(warehouse), **{"local.fsync": "false"})
        self.played = Played()
        self.number = 0
        self.dynamic = bool(history.table["primaryKeys"]) and history.table["options"]["bucket"] == "-1"
        self.postponed = history.table["options"].get("bucket") == "-2"
        self.users = itertools.count(1)
        self.old = NEW if knows_only_newest(history.table) else OLD

    def run(self) -> Played:
        creator = (self.old, NEW)[self.history.seed % 2]
        try:
            self.oracles[creator].create(self.warehouse, TWIN, _twin(self.history.table))
        except OracleError as err:
            self.played.left_out[f"create: {_first(err)}"] += 1
            return self.played
        self._create(creator)
        for number, step in enumerate(self.history.steps):
            self.number = number
            if self._step(step):
                self._compare(step)
        self._compare_twin()
        self.number = -1
        self._check_travel()
        self._lake("tags", self._check_tags)
        self._check_stream()
        self._check_changes()
        self._check_files()
        return self.played

    def _create(self, creator: str) -> None:
        """Java writes the schema of `d.t`; lakecore would have made the same one."""
        if self.history.seed % 3 == 0 and self._lake(
            "create", lambda: self.catalog.create_table(MAIN, self.history.table)
        ):
            return
        self._java(creator, "create", lambda java: java.create(self.warehouse, MAIN, self.history.table))

    def _step(self, step: Step) -> bool:
        """Do it on both tables; False: it was left out."""
        if self.dynamic and step.op in ("write", "overwrite"):
            step = replace(step, by=LAKE)  # Java's API wants buckets from the caller
        if self.postponed and step.op == "compact":
            step = replace(step, by=LAKE)  # Java's core has no such compaction
        by = self.old if step.by == LAKE else step.by
        try:
            self._oracle_step(self.oracles[by], TWIN, step)
        except OracleError as err:
            self.played.left_out[f"{step.op}: {_first(err)}"] += 1
            self._end_if_broken(step)
            return False
        if step.by == LAKE and self._lake(step.op, lambda: self._lake_step(step)):
            return True
        if (self.dynamic and step.op in ("write", "overwrite")) or (self.postponed and step.op == "compact"):
            raise TwinBrokenError(f"{step.op} of buckets that Java's core does not assign")
        self._java(by, step.op, lambda java: self._oracle_step(java, MAIN, step))
        return True

    def _end_if_broken(self, step: Step) -> None:
        """Java may have done half of the step to the twin: its rows must be what they were."""
        twins, ours = (self._java_rows(self.old, name) for name in (TWIN, MAIN))
        if ours != twins:
            raise TwinBrokenError(f"{step}")

    def _lake(self, op: str, work: Callable[[], Any]) -> bool:
        """Whether lakecore did it. Any other error than a refusal is a finding."""
        try:
            work()
        except UnsupportedError as err:
            self.played.refused[f"{op}: {_shape(str(err))}"] += 1
            return False
        except (Failed, OracleError):
            raise
        except Exception as err:
            raise Failed(f"lakecore {op} {type(err).__name__}", self.number, str(err)) from err
        self.played.done[f"{LAKE} {op}"] += 1
        return True

    def _java(self, by: str, op: str, work: Callable[[Oracle], Any]) -> None:
        try:
            work(self.oracles[by])
        except OracleError as err:
            raise Failed(f"java {op}", self.number, f"{by} did it on the twin, but here: {err}") from err
        self.played.done[f"{by} {op}"] += 1

    def _lake_step(self, step: Step) -> None:
        if step.op == "alter":
            self.catalog.alter_table(MAIN, [step.change or {}])
            return
        table = self.catalog.load_table(MAIN)
        if step.op == "compact":
            strategy = compact.Strategy.FULL if step.full else compact.Strategy.UNIVERSAL
            proof = compact.ProofMode(step.proof)
            user = f"fuzz-{next(self.users)}"
            job = compact.Job(table=MAIN, strategy=strategy, proof=proof, commit_user=user)
            report = compact.run(job, self.catalog)
            if report.dropped:
                raise Failed("lakecore drops picks that nobody disturbs", self.number, str(report.dropped))
        elif step.op == "expire":
            job = expire_snapshots.Job(table=MAIN, retain_max=step.keep, retain_min=1)
            expire_snapshots.run(job, self.catalog)
        elif step.op == "delete":
            self._lake_delete(table, step)
        elif step.op == "tag":
            tags.run(tags.CreateTag(table=MAIN, tag=step.name), self.catalog)
        elif step.op == "untag":
            tags.run(tags.DeleteTag(table=MAIN, tags=(step.name,)), self.catalog)
        else:
            rows = json_to_batch(map(json.dumps, step.rows), table.schema.row_type)
            if step.op == "write":
                table.write(rows)
            elif step.partition:
                table.overwrite(rows, _spec(step.partition))
            else:
                table.overwrite(rows)

    def _lake_delete(self, table: Table, step: Step) -> None:
        delete = getattr(table, "delete", None)
        if delete is None:
            raise UnsupportedError("delete: rows of append tables")
        (row,) = step.rows
        delete(_where(table, row))

    def _oracle_step(self, java: Oracle, name: str, step: Step) -> None:
        place = (self.warehouse, name)
        if step.op == "alter":
            java.call("alter", *place, json.dumps([step.change]))
        elif step.op == "compact":
            java.compact(*place, full=step.full)
        elif step.op == "expire":
            java.call("expire-snapshots", *place, "--retain-max", step.keep, "--retain-min", 1)
        elif step.op in ("tag", "untag"):
            java.call("create-tag" if step.op == "tag" else "delete-tag", *place, step.name)
        elif step.op == "delete":
            with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
                file.write(json.dumps(step.rows[0]))
                file.flush()
                java.call("delete-rows", *place, file.name)
        else:
            flags = ["--overwrite", _spec(step.partition) if step.partition else "all"]
            java.write(*place, step.rows, *(flags if step.op == "overwrite" else ()))

    @property
    def _reader(self) -> str:
        """The Java that reads now: in turns."""
        return (self.old, NEW)[(self.history.seed + self.number) % 2]

    def _compare(self, step: Step) -> None:
        if step.by == LAKE:
            self._compare_twin(compacted=step.op == "compact")
        right = self._java_rows(self._reader, MAIN)
        self._lake("read", lambda: self._compare_read(right))

    def _compare_twin(self, *, compacted: bool = False) -> None:
        """Rows of level 0 that are not read yet come with a compaction, which Java's writers do themselves."""
        if self._hides_rows and not compacted:
            return
        twin = self._java_rows(self._reader, TWIN)
        right = self._java_rows(self._reader, MAIN)
        if right != twin:
            raise Failed("rows differ from the twin", self.number, _difference(right, twin, "here", "twin"))

    @property
    def _hides_rows(self) -> bool:
        """Whether rows that were written are not read before a compaction."""
        options = self.history.table["options"]
        skips = options.get("merge-engine") == "first-row" or "deletion-vectors.enabled" in options
        return bool(self.history.table["primaryKeys"]) and (skips or self.postponed)

    def _compare_read(self, right: list[str]) -> None:
        ours = _lines(self.catalog.load_table(MAIN).scan())
        if ours != right:
            raise Failed(
                "lakecore reads other rows", self.number, _difference(ours, right, "lakecore", "java")
            )
        self._check_condition(right)

    def _check_condition(self, right: list[str]) -> None:
        """Rows of a condition are those of all rows for which it holds, whatever indexes left out."""
        rows = [row for line in right if (row := json.loads(line)).get("k") is not None]
        table = self.catalog.load_table(MAIN)
        kind = str(table.schema.row_type.field("k").type).removesuffix(" NOT NULL")
        if not rows or kind not in ("INT", "BIGINT", "SMALLINT", "STRING"):
            return
        value = rows[self.history.seed % len(rows)]["k"]
        ours = _lines(table.scan(where=_where(table, {"k": value})))
        wanted = sorted(line for line in right if json.loads(line).get("k") == value)
        if ours != wanted:
            text = f"k = {value!r}: {_difference(ours, wanted, 'lakecore', 'of all rows')}"
            raise Failed("a condition finds other rows", self.number, text)

    def _java_rows(self, version: str, name: str) -> list[str]:
        try:
            return _inserts(self.oracles[version].read(self.warehouse, name))
        except OracleError as err:
            if name == TWIN:
                raise TwinBrokenError(str(err)) from err
            raise Failed("java cannot read", self.number, f"{version}: {err}") from err

    def _check_travel(self) -> None:
        """Two of the snapshots, read by both."""
        snapshots = self.catalog.load_table(MAIN).snapshots
        earliest, latest = snapshots.earliest(), snapshots.latest_id()
        if latest is None or earliest is None:
            return
        for snapshot in {earliest.id, (earliest.id + latest) // 2}:
            try:
                right = _inserts(self.oracles[NEW].read(self.warehouse, MAIN, snapshot=snapshot))
            except OracleError as err:
                self.played.left_out[f"travel: {_first(err)}"] += 1
                continue
            self._lake("travel", partial(self._compare_snapshot, snapshot, right))

    def _check_tags(self) -> None:
        """Each tag, read by both; the same tag of the twin, which was made after the same step."""
        table = self.catalog.load_table(MAIN)
        for name in table.tags.list():
            right = self._tagged_rows(MAIN, name)
            ours = _lines(table.scan(tag=name))
            if ours != right:
                text = _difference(ours, right, "lakecore", "java")
                raise Failed("lakecore reads a tag differently", self.number, f"{name}: {text}")
            if not self._hides_rows and right != (twin := self._tagged_rows(TWIN, name)):
                text = _difference(right, twin, "here", "twin")
                raise Failed("tags differ from the twin", self.number, f"{name}: {text}")

    def _tagged_rows(self, table: str, name: str) -> list[str]:
        try:
            return _inserts(self.oracles[self._reader].read(self.warehouse, table, tag=name))
        except OracleError as err:
            if table == TWIN:
                raise TwinBrokenError(str(err)) from err
            raise Failed("java cannot read a tag", self.number, f"{name}: {err}") from err

    def _compare_snapshot(self, snapshot: int, right: list[str]) -> None:
        ours = _lines(self.catalog.load_table(MAIN).scan(snapshot=snapshot))
        if ours != right:
            text = f"snapshot {snapshot}: {_difference(ours, right, 'lakecore', 'java')}"
            raise Failed("lakecore travels to other rows", self.number, text)

    def _check_stream(self) -> None:
        """Both tell the same changes, plan by plan."""
        table = self.catalog.load_table(MAIN)
        if table.snapshots.latest_id() is None:
            return
        try:
            plans = self.oracles[NEW].call("stream", self.warehouse, MAIN, "--from-snapshot", 1)
        except OracleError as err:
            self.played.left_out[f"stream: {_first(err)}"] += 1
            return
        self._lake("stream", lambda: self._compare_stream(table, plans))

    def _compare_stream(self, table: Table, plans: Sequence[Mapping[str, Any]]) -> None:
        stream = table.stream(snapshot=1)
        for plan in plans:
            changes = stream.poll()
            told = [] if changes is None else sorted(_told(changes))
            right = sorted(_line(row) for row in plan["rows"])
            if told != right:
                text = _difference(told, right, "lakecore", "java")
                raise Failed("streams differ", self.number, f"snapshots {plan['snapshots']}: {text}")
        if (more := stream.poll()) is not None:
            raise Failed("streams differ", self.number, f"lakecore goes on with snapshot {more.snapshot.id}")

    def _check_changes(self) -> None:
        """What happened between two snapshots, in each of the modes."""
        snapshots = self.catalog.load_table(MAIN).snapshots
        earliest, latest = snapshots.earliest(), snapshots.latest_id()
        if earliest is None or latest is None or earliest.id == latest:
            return
        skips = self._hides_rows and not self.postponed
        for mode in ("delta", "changelog", "diff"):
            java = self.oracles[self.old if mode == "diff" and skips else NEW]
            if mode == "diff" and skips and java.version == NEW:
                continue  # 2.0 compares what no read of a state shows
            options = {
                "incremental-between": f"{earliest.id},{latest}",
                "incremental-between-scan-mode": mode,
            }
            flags = [part for key, value in options.items() for part in ("--option", f"{key}={value}")]
            try:
                right = sorted(map(_line, java.call("read", self.warehouse, MAIN, *flags)))
            except OracleError as err:
                self.played.left_out[f"changes: {_first(err)}"] += 1
                continue
            self._lake("changes", partial(self._compare_changes, options, right))

    def _compare_changes(self, options: Mapping[str, str], right: list[str]) -> None:
        scan = self.catalog.load_table(MAIN, options).scan()
        ours = sorted(line for batch in scan.to_batches(kinds=True) for line in _told_of(batch, scan))
        if ours != right:
            text = _difference(ours, right, "lakecore", "java")
            raise Failed("changes differ", self.number, f"{options}: {text}")

    def _check_files(self) -> None:
        """Findings that the twin does not have as well."""
        found = self._findings("t")
        if found and not self._findings("twin"):
            raise Failed("lakecore fsck", self.number, str(found[:3]))
        java = self.oracles[self._reader]
        problems = self._java_findings(java)
        if problems and not findings(java.fsck(self.warehouse, TWIN)):
            raise Failed("java fsck", self.number, f"{java.version}: {sorted(problems)[:3]}")

    def _java_findings(self, java: Oracle) -> set[str]:
        try:
            return findings(java.fsck(self.warehouse, MAIN))
        except OracleError as err:
            try:
                java.fsck(self.warehouse, TWIN)
            except OracleError as same:
                raise TwinBrokenError(str(same)) from err
            raise Failed("java fsck", self.number, f"{java.version}: {err}") from err

    def _findings(self, name: str) -> list[Any]:
        path = TablePaths(f"{self.warehouse}/d.db/{name}")
        return list(fsck(LocalFileIO(), path, now_ms=0, deep=True, read_data=True).findings)


class TwinBrokenError(Exception):
    """Java cannot go on with its own table: nothing to compare with."""


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


def _lines(scan: Any) -> list[str]:
    lines = (line for batch in scan.to_batches() for line in batch_to_json(batch, scan.row_type, "+I"))
    return _inserts(canonical(lines))


def _inserts(rows: list[str]) -> list[str]:
    """Whether a read shows +U as +I depends on how files are laid out, in Java too."""
    return sorted(_settled(row).replace('"_kind": "+U"', '"_kind": "+I"') for row in rows)


def _settled(line: str) -> str:
    """Bitmaps and sketches by what they stand for: their bytes depend on how often they were united."""
    return _BYTES.sub(lambda found: _stands_for(found[1]), line) if '"0x0' in line else line


@functools.lru_cache(4096)
def _stands_for(digits: str) -> str:
    value = bytes.fromhex(digits)
    stands = meaning(value)
    return f'"0x{digits}"' if stands is value else f'"set {hash(stands)} of {digits[:6]}"'


def _told(changes: Any) -> Any:
    for batch in changes.to_batches():
        yield from _told_of(batch, changes.rows)


def _told_of(batch: Any, rows: Any) -> Any:
    kinds = batch.column("_VALUE_KIND").to_pylist()
    lines = batch_to_json(batch.select(list(rows.columns)), rows.row_type)
    for kind, line in zip(kinds, lines, strict=True):
        yield _line({"_kind": RowKind(kind).symbol, **json.loads(line)})


def _line(row: Mapping[str, Any]) -> str:
    return _settled(json.dumps(row, sort_keys=True, ensure_ascii=False))


def _spec(partition: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in partition.items())


def _where(table: Table, row: Mapping[str, Any]) -> str:
    """A condition that holds for rows equal to `row`."""
    ((name, value),) = row.items()
    kind = str(table.schema.row_type.field(name).type)
    if isinstance(value, str) and not kind.startswith("DECIMAL"):
        value = value.replace("'", "''")
        return f"{name} = '{value}'"
    return f"{name} = {str(value).upper() if isinstance(value, bool) else value}"


def _difference(ours: list[str], right: list[str], left_name: str, right_name: str) -> str:
    more, less = Counter(ours) - Counter(right), Counter(right) - Counter(ours)
    return f"only {left_name}: {list(more.elements())[:4]}; only {right_name}: {list(less.elements())[:4]}"


def _first(err: OracleError) -> str:
    """What Java threw, without names and numbers of this run."""
    thrown = re.findall(r"[\w.$]+(?:Exception|Error): [^;]*", str(err).split("\n")[0])
    return _shape(thrown[-1] if thrown else str(err))


def _shape(text: str) -> str:
    """A message without what differs from run to run."""
    words = [
        word
        for word in text.replace("\n", " ").split()
        if "/" not in word and not any(c.isdigit() for c in word)
    ]
    return " ".join(words)[:110]
