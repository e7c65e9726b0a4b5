"""Random walks over the chores of one table, against a model of its rows.

`python -m tests.fuzz.chore_walk [--seed N] [--minutes M]`: each seed is a table and a walk. lakecore and Java write;
lakecore compacts, sorts, rescales, alters columns, updates and merges rows, makes file indexes, drops, overwrites and
expires partitions, renames, drops, restores, copies and purges the table, expires and goes back; after each step every
snapshot and tag must have the rows of the model, for lakecore, and now and then and at the end for Java, too.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakecore
from lakecore.clock import SystemClock
from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import (
    analyze,
    compact,
    expire_snapshots,
    partitions,
    purge_files,
    quarantine,
    remove_orphan_files,
    rescale,
    rewrite_file_index,
)
from lakecore.jobs.definitions.repair import CompactManifest, RepairHints, Undo
from lakecore.jobs.migration import copy_table
from lakecore.jobs.repair import metadata
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import rollback, tags
from lakecore.row.json_rows import json_to_batch
from lakecore.row.order_strategy import OrderStrategy
from lakecore.verify.mode import ProofMode
from lakecore.write.row_level.clauses import MergeRules
from tests.fuzz.row_lines import inserts, read_lines
from tests.fuzz.walk_follower import Follower
from tests.fuzz.walk_loop import changelog_lists, main
from tests.fuzz.walk_shape import random_shape
from tests.support.golden import canonical
from tests.support.oracle import Oracle, findings

__all__ = ["ChoreWalk"]

_DAY = 86_400_000
_OLD = ("2020-01-01", "2020-01-02")
_NEW = ("2026-11-01", "2026-11-02")
_FOR_GOOD = Safety(quarantine=False)
Key = tuple[Any, ...]
Rows = dict[Key, dict[str, Any]]


class ChoreWalk:
    """One table, its model and the steps on both."""

    def __init__(self, seed: int, oracles: dict[str, Oracle], root: Path) -> None:
        self.dice = random.Random(seed)
        self.oracles, self.root = oracles, root
        self.catalog = lakecore.load_catalog(str(root))
        self.shape = random_shape(self.dice)
        self.name = "d.t"
        self.rows: Rows = {}
        self.columns = ["v", "n"]
        self.history: dict[int, Rows] = {}
        self.tags: dict[str, Rows] = {}
        self.number = 0
        self.quarantine = False
        self.log = [str(self.shape)]
        self.refusals: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.java = self.dice.random() < 0.75
        self.follower = Follower(self._stream_key) if self.shape.streams else None
        oracles["new"].create(root, self.name, self.shape.schema())

    def walk(self, length: int) -> None:
        steps: dict[Callable[[], None], float] = {
            self._write: 30,
            self._compact: 10,
            self._java_compact: 4,
            self._sort: 4,
            self._rescale: 4,
            self._alter: 6,
            self._index: 3,
            self._drop_partition: 3,
            self._overwrite: 4,
            self._expire_partitions: 1.5,
            self._mark_done: 1,
            self._manifests: 3,
            self._analyze: 2,
            self._update: 5,
            self._merge: 4,
            self._delete: 5,
            self._rename: 1.5,
            self._drop: 1.5,
            self._copy: 1.5,
            self._purge: 1.5,
            self._back: 3,
            self._tag: 5,
            self._expire: 7,
            self._orphans: 5,
            self._hints: 1,
        }
        self._write()
        self._check()
        for _ in range(length):
            step = self.dice.choices(list(steps), list(steps.values()))[0]
            before = len(self.log)
            try:
                step()
            except (UnsupportedError, InvalidInputError) as err:
                self._say("refused", err)
                self.refusals[f"{step.__name__}: {type(err).__name__}: {str(err)[:160]}"] += 1
            else:
                self.done[step.__name__] += len(self.log) > before
            self._check()
            if self.dice.random() < 0.15:
                self._ask_java()
        self._orphans()
        self._check()
        self._ask_java()
        self._check_files()

    def tally(self) -> Counter[str]:
        polls = Counter({"changes of streams": self.follower.changes if self.follower else 0})
        return (
            self.done
            + polls
            + Counter({f"refused {reason}": count for reason, count in self.refusals.items()})
        )

    # --- words

    def _say(self, *words: object) -> None:
        self.log.append(" ".join(map(str, words)))

    def _by(self) -> str:
        java = self.java and not self.shape.moves and self._has_one_bucket_count()
        return self.dice.choice(("lake", "lake", "old", "new")) if java else "lake"

    def _has_one_bucket_count(self) -> bool:
        """Return whether Java may write: with several bucket counts it appends all rows and then fails."""
        table = self._table()
        latest = table.latest_snapshot()
        if self.shape.bucket == "-1" or latest is None:
            return True
        totals = {entry.total_buckets for entry in table._scanner.live_entries(latest).rows()}
        return totals <= {table.options.bucket}

    def _table(self) -> Any:
        return self.catalog.load_table(self.name)

    def _safety(self) -> Safety:
        keeps = self.dice.random() < 0.3
        self.quarantine |= keeps
        return Safety(quarantine=keeps)

    def _key(self, row: dict[str, Any]) -> Key:
        return tuple(row[name] for name in self.shape.primary) if self.shape.keyed else (row["p"], row["k"])

    def _stream_key(self, row: dict[str, Any]) -> Key:
        """Return the key by which a consumer adds up changes. Where keys move between partitions, the delete in the old one
        and the row in the new one come in no order.
        """
        return (row["p"], row["k"]) if self.shape.moves else self._key(row)

    def _number_column(self) -> str | None:
        """The column that is a number and may be set: it has had other names."""
        return next((name for name in self.columns if name.startswith("n")), None)

    # --- rows

    def _new_rows(self, part: str | None = None) -> list[dict[str, Any]]:
        rows: dict[Key, dict[str, Any]] = {}
        self.number += 1
        for at in range(self.dice.randint(1, 6)):
            key = self.dice.randint(0, 9) if self.shape.keyed else self.number * 10 + at
            row: dict[str, Any] = {"p": part or self.dice.choice(_OLD + _NEW), "k": key}
            for name in self.columns:
                value = self.dice.randint(0, 9) if name.startswith("n") else f"{self.number}-{at}-{name}"
                row[name] = None if self.dice.random() < 0.15 else value
            rows.setdefault(self._key(row), row)
        return list(rows.values())

    def _merged(self, rows: Rows, new: dict[str, Any]) -> Rows:
        key = self._key(new)
        old = rows.get(key)
        engine = self.shape.engine
        if old is not None and engine == "first-row":
            return rows
        if old is not None and engine in ("partial-update", "aggregation"):
            row = {name: old.get(name) if new.get(name) is None else new[name] for name in self.columns}
            if engine == "aggregation" and (name := self._number_column()) is not None:
                values = [one[name] for one in (old, new) if one.get(name) is not None]
                row[name] = sum(values) if values else None
            new = {"p": new["p"] if self.shape.keyed else old["p"], "k": new["k"]} | row
            if not self.shape.partitioned and engine == "aggregation":
                new["p"] = row.get("p", new["p"])
        return {**rows, key: new}

    def _write(self) -> None:
        by = self._by()
        rows = self._new_rows()
        if self.shape.engine == "deduplicate" and self.dice.random() < 0.4 and self.rows:
            victim = dict(self.dice.choice(list(self.rows.values())))
            rows = [row for row in rows if self._key(row) != self._key(victim)]
            rows.append(victim | {"_kind": "-D"})
        self._say("write", by, rows)
        if by != "lake":
            self.oracles[by].write(self.root, self.name, rows)
        else:
            table = self._table()
            texts = [json.dumps({"_kind": "+I"} | row) for row in rows]
            table.write(json_to_batch(texts, table.schema.row_type))
        after = self.rows
        for row in rows:
            if row.get("_kind") == "-D":
                after = {key: old for key, old in after.items() if key != self._key(row)}
            else:
                after = self._merged(after, row)
        self.rows = after
        self._settle(by)

    def _breaks_stream(self, *, overwrites: bool = True) -> None:
        """The change stream has nothing of this step, so that the consumer begins anew."""
        if self.follower and not (overwrites and self.shape.reads_overwrites):
            self.follower.restart()

    def _settle(self, by: str = "lake") -> None:
        """Compact where reads leave out level 0, so that they return the new rows."""
        if self.shape.keyed and (self.shape.vectors or self.shape.engine == "first-row"):
            compact.run(compact.Job(table=self.name, strategy=compact.Strategy.FULL), self.catalog)

    def _update(self) -> None:
        name = self._number_column()
        if name is None:
            return
        bound, value = self.dice.randint(0, 9), self.dice.randint(100, 199)
        self._say("update", name, value, "k <=", bound)
        if not self.shape.keyed:
            self._breaks_stream(overwrites=False)
        self._table().update({name: value}, f"k <= {bound}")
        self.rows = {key: row | {name: value} if row["k"] <= bound else row for key, row in self.rows.items()}
        self._settle()

    def _merge(self) -> None:
        name = self._number_column()
        if name is None or self.shape.moves:
            return
        rows = self._new_rows()
        deletes = self.shape.engine in ("append", "deduplicate") and self.dice.random() < 0.2
        self._say("merge", rows, deletes)
        if not self.shape.keyed:
            self._breaks_stream(overwrites=False)
        table = self._table()
        source = pa.Table.from_batches(
            [json_to_batch([json.dumps(row) for row in rows], table.schema.row_type)]
        )
        source = source.select([one for one in source.column_names if not one.startswith("_")])
        on = ("p", "k") if self.shape.partitioned or not self.shape.keyed else ("k",)
        table.merge(source, on, MergeRules(delete_not_matched_by_source=deletes))
        matched = {self._key(row): row for row in rows}
        base = {key: row for key, row in self.rows.items() if not deletes or key in matched}
        self.rows = base | matched
        self._settle()

    def _delete(self) -> None:
        if self.shape.engine == "aggregation" or self.shape.engine == "partial-update":
            return
        bound = self.dice.randint(-1, 9)
        self._say("delete k =", bound)
        if not self.shape.keyed:
            self._breaks_stream(overwrites=False)
        self._table().delete(f"k = {bound}")
        self.rows = {key: row for key, row in self.rows.items() if row["k"] != bound}
        self._settle()

    def _overwrite(self) -> None:
        if self.shape.moves:
            return
        part = self.dice.choice(_OLD + _NEW)
        rows = self._new_rows(part if self.shape.partitioned else None)
        how = self.dice.choice(("all", "partition")) if self.shape.partitioned else "all"
        self._say("overwrite", how, part, rows)
        self._breaks_stream()
        table = self._table()
        batch = json_to_batch([json.dumps({"_kind": "+I"} | row) for row in rows], table.schema.row_type)
        if how == "all":
            table.overwrite(batch, dynamic=False)
            after: Rows = {}
        else:
            table.overwrite(batch, f"p={part}")
            after = {key: row for key, row in self.rows.items() if row["p"] != part}
        for row in rows:
            after = self._merged(after, row)
        self.rows = after
        self._settle()

    def _drop_partition(self) -> None:
        if not self.shape.partitioned:
            return
        part = self.dice.choice(_OLD + _NEW)
        self._say("drop-partition", part)
        self._breaks_stream()
        partitions.run(partitions.DropPartition(table=self.name, partitions=f"p={part}"), self.catalog)
        self.rows = {key: row for key, row in self.rows.items() if row["p"] != part}

    def _expire_partitions(self) -> None:
        if not self.shape.partitioned:
            return
        self._say("expire-partitions")
        self._breaks_stream()
        job = partitions.ExpirePartitions(
            table=self.name,
            expiration_ms=365 * _DAY,
            timestamp_formatter="yyyy-MM-dd",
            timestamp_pattern="$p",
        )
        partitions.run(job, self.catalog)
        self.rows = {key: row for key, row in self.rows.items() if row["p"] not in _OLD}

    def _mark_done(self) -> None:
        if self.shape.partitioned and self.rows:
            part = next(iter(self.rows.values()))["p"]
            self._say("mark-partition-done", part)
            partitions.run(
                partitions.MarkPartitionDone(table=self.name, partitions=f"p={part}"), self.catalog
            )

    # --- files

    def _compact(self) -> None:
        full = self.dice.random() < 0.5
        proof, copy = self.dice.choice(list(ProofMode)), self.dice.choice(list(CopyMode))
        where = (
            f"p={self.dice.choice(_OLD + _NEW)}"
            if self.shape.partitioned and self.dice.random() < 0.2
            else None
        )
        self._say("compact", full, proof.value, copy.value, where)
        strategy = compact.Strategy.FULL if full else compact.Strategy.UNIVERSAL
        job = compact.Job(table=self.name, strategy=strategy, proof=proof, copy=copy, where=where)
        compact.run(job, self.catalog)

    def _java_compact(self) -> None:
        if not self.java or not self._has_one_bucket_count():
            return
        by, full = self.dice.choice(("old", "new")), self.dice.random() < 0.5
        self._say("compact", by, full)
        self.oracles[by].compact(self.root, self.name, full=full)

    def _sort(self) -> None:
        if self.shape.keyed:
            return
        order = self.dice.choice([OrderStrategy.ORDER, OrderStrategy.ZORDER, OrderStrategy.HILBERT])
        by = tuple(self.dice.sample(["k", *self.columns], self.dice.randint(1, 2)))
        self._say("sort", order.value, by)
        job = compact.Job(
            table=self.name,
            strategy=compact.Strategy.FULL,
            order_strategy=order,
            order_by=by,
            proof=self.dice.choice(list(ProofMode)),
        )
        compact.run(job, self.catalog)

    def _rescale(self) -> None:
        if self.shape.bucket == "-1":
            return
        to = self.dice.randint(1, 4)
        where = (
            f"p={self.dice.choice(_OLD + _NEW)}"
            if self.shape.partitioned and self.dice.random() < 0.3
            else None
        )
        self._say("rescale", to, where)
        rescale.run(rescale.Job(table=self.name, bucket_num=to, where=where), self.catalog)
        if where is None or self.dice.random() < 0.3:
            self.catalog.alter_table(self.name, [{"op": "set", "key": "bucket", "value": str(to)}])

    def _index(self) -> None:
        column = self.dice.choice(["k", *self.columns])
        kind = self.dice.choice(("bloom-filter", "bitmap", "bsi", "range-bitmap"))
        if kind == "bsi" and column.startswith(("v", "c")):
            kind = "bitmap"
        self._say("file index", kind, column)
        options = {f"file-index.{kind}.columns": column}
        rewrite_file_index.run(rewrite_file_index.Job(table=self.name, options=options), self.catalog)

    def _manifests(self) -> None:
        self._say("compact-manifest")
        metadata.run(CompactManifest(table=self.name), self.catalog)

    def _analyze(self) -> None:
        self._say("analyze")
        analyze.run(analyze.Job(table=self.name), self.catalog)

    def _hints(self) -> None:
        self._say("hints")
        directory = self.root / "d.db" / self.name.partition(".")[2] / "snapshot"
        for name in ("LATEST", "EARLIEST"):
            if self.dice.random() < 0.5:
                (directory / name).unlink(missing_ok=True)
            else:
                (directory / name).write_text(self.dice.choice(("0", "1", "999", "x", "")))
        metadata.run(RepairHints(table=self.name), self.catalog)

    # --- schema

    def _alter(self) -> None:
        self._change_schema()
        self._reopen_stream()

    def _change_schema(self) -> None:
        change = self.dice.choice(("add", "rename", "drop", "widen", "move", "set"))
        self.number += 1
        if change == "set":
            key, value = self.dice.choice(
                (
                    ("file.format", self.dice.choice(("parquet", "orc", "avro"))),
                    ("file.compression", self.dice.choice(("zstd", "lz4", "none"))),
                    ("target-file-size", self.dice.choice(("1 kb", "128 mb"))),
                    ("metadata.stats-mode", self.dice.choice(("full", "none", "counts"))),
                    ("file-index.bloom-filter.columns", "k"),
                )
            )
            self._say("set", key, value)
            self.catalog.alter_table(self.name, [{"op": "set", "key": key, "value": value}])
            return
        if change == "widen":
            if (name := self._number_column()) is not None:
                self._say("widen", name)
                self.catalog.alter_table(self.name, [{"op": "type", "name": name, "type": "BIGINT"}])
            return
        if change == "add":
            if len(self.columns) < 5:
                name = f"c{self.number}"
                self._say("add", name)
                self.catalog.alter_table(self.name, [{"op": "add", "name": name, "type": "STRING"}])
                self.columns = [*self.columns, name]
                self.rows = {key: {**row, name: None} for key, row in self.rows.items()}
            return
        name = self.dice.choice(self.columns)
        if change == "move":
            self._say("move", name)
            self.catalog.alter_table(self.name, [{"op": "move", "name": name, "after": "k"}])
            self.columns = [name, *(one for one in self.columns if one != name)]
        elif change == "rename":
            new = f"{name[0]}{self.number}"
            self._say("rename column", name, new)
            self.catalog.alter_table(self.name, [{"op": "rename", "name": name, "to": new}])
            self.columns = [new if one == name else one for one in self.columns]
            self.rows = {
                key: {(new if one == name else one): value for one, value in row.items()}
                for key, row in self.rows.items()
            }
        elif len(self.columns) > 1:
            self._say("drop column", name)
            self.catalog.alter_table(self.name, [{"op": "drop", "name": name}])
            self.columns = [one for one in self.columns if one != name]
            self.rows = {
                key: {one: value for one, value in row.items() if one != name}
                for key, row in self.rows.items()
            }

    def _reopen_stream(self) -> None:
        if self.follower:
            self.follower.reopen(self._table(), self._renamed(self.follower.rows, self.columns))

    # --- the table as a whole

    def _rename(self) -> None:
        self.number += 1
        new = f"d.t{self.number}"
        self._say("rename", self.name, new)
        self.catalog.rename_table(self.name, new)
        self.name = new
        self._reopen_stream()

    def _drop(self) -> None:
        self._say("drop and restore")
        self.catalog.drop_table(self.name)
        self.catalog.restore_table(self.name)
        self._reopen_stream()

    def _copy(self) -> None:
        """The copy goes on in place of the table."""
        self.number += 1
        new = f"d.c{self.number}"
        self._say("copy", self.name, new)
        self._breaks_stream(overwrites=False)
        copy_table.run(copy_table.Job(source=self.name, target=new), self.catalog)
        self.name, self.history, self.tags = new, {}, {}

    def _purge(self) -> None:
        self._say("purge and undo")
        self._breaks_stream(overwrites=False)
        report = purge_files.run(
            purge_files.Job(
                table=self.name, older_than_ms=SystemClock().now_ms() + 1, safety=Safety(quarantine=True)
            ),
            self.catalog,
        )
        self.quarantine = True
        if self.shape.partitioned and self.dice.random() < 0.2:
            self.rows, self.history, self.tags = {}, {}, {}
            return
        if report.run:
            quarantine.run(Undo(run_id=report.run), self.catalog)
            latest = self._table().latest_snapshot()
            rows = self.history.get(latest.id) if latest is not None else None
            self.rows = {} if rows is None else self._renamed(rows, self.columns)

    def _back(self) -> None:
        if not self.tags:
            return
        name = self.dice.choice(list(self.tags))
        self._say("rollback-to-as-latest", name)
        self._breaks_stream()
        rollback.run(rollback.RollbackToAsLatest(table=self.name, tag=name), self.catalog)
        self.rows = self._renamed(self.tags[name], self.columns)

    def _renamed(self, rows: Rows, names: list[str]) -> Rows:
        """Rows of another state with these columns, which may have had other names."""
        stores = self._table()._stores.schemas
        ids = {one.name: one.id for at in stores.list_ids() for one in stores.load(at).fields}
        return {
            key: {name: row[name] for name in ("p", "k")}
            | {
                name: next((value for old, value in row.items() if ids.get(old) == ids[name]), None)
                for name in names
            }
            for key, row in rows.items()
        }

    def _tag(self) -> None:
        if self._table().latest_snapshot() is None:
            return
        if len(self.tags) > 2:
            name = self.dice.choice(list(self.tags))
            self._say("untag", name)
            tags.run(tags.DeleteTag(table=self.name, tags=(name,), safety=self._safety()), self.catalog)
            del self.tags[name]
            return
        self.number += 1
        name = f"t{self.number}"
        self._say("tag", name)
        tags.run(tags.CreateTag(table=self.name, tag=name), self.catalog)
        self.tags[name] = self.history.get(self._table().latest_snapshot().id, self.rows)

    def _expire(self) -> None:
        kept = self.dice.randint(1, 4)
        self._say("expire", kept)
        job = expire_snapshots.Job(table=self.name, retain_max=kept, retain_min=1, safety=self._safety())
        expire_snapshots.run(job, self.catalog)

    def _orphans(self) -> None:
        self._say("orphans")
        time.sleep(0.002)  # only files older than a whole millisecond may be removed
        job = remove_orphan_files.Job(
            table=self.name, older_than_ms=SystemClock().now_ms() - 1, allow_empty=True, safety=self._safety()
        )
        remove_orphan_files.run(job, self.catalog)

    # --- checks

    def _check(self) -> None:
        table = self._table()
        self._same("now", read_lines(table.scan()), self._lines(self.rows, self.columns))
        if (latest := table.latest_snapshot()) is not None:
            self.history.setdefault(latest.id, self.rows)
        for at in table._stores.snapshots.list_ids():
            if at in self.history:
                self._same_state(f"snapshot {at}", table.scan(snapshot=at), self.history[at])
        for tag, rows in self.tags.items():
            self._same_state(f"tag {tag}", table.scan(tag=tag), rows)
        self._check_conditions(table)
        self._check_bounds(table)
        if self.follower and self.dice.random() < 0.6:
            self.follower.poll(table)
            if self.follower.is_in_step(table):
                self._same(
                    "stream",
                    self._lines(self.follower.rows, self.columns),
                    self._lines(self.rows, self.columns),
                )

    def _check_conditions(self, table: Any) -> None:
        """Statistics and file indexes leave out nothing that a condition is true for."""
        names = self.dice.sample(["p", "k", *self.columns], 2)
        left, right = (self._condition(name) for name in names)
        joined = self.dice.choice(("and", "or"))
        both = all if joined == "and" else any
        where = f"{left[0]} {joined} {right[0]}"
        rows = {key: row for key, row in self.rows.items() if both((left[1](row), right[1](row)))}
        self._same(where, read_lines(table.scan(where=where)), self._lines(rows, self.columns))
        count = table.scan(where=where).count()
        if count != len(rows):
            raise AssertionError(f"{where}: {count} rows are counted instead of {len(rows)}")

    def _condition(self, name: str) -> tuple[str, Callable[[dict[str, Any]], bool]]:
        """One condition on a column, as text and for rows of the model."""
        values = [row.get(name) for row in self.rows.values() if row.get(name) is not None]
        is_number = name.startswith(("k", "n"))
        value = self.dice.choice(values) if values else (3 if is_number else "x")
        literal = str(value) if is_number else f"'{value}'"
        conditions: dict[str, Callable[[Any], bool]] = {
            f"{name} = {literal}": lambda one: one is not None and one == value,
            f"{name} <> {literal}": lambda one: one is not None and one != value,
            f"{name} < {literal}": lambda one: one is not None and one < value,
            f"{name} >= {literal}": lambda one: one is not None and one >= value,
            f"{name} in ({literal})": lambda one: one is not None and one == value,
            f"{name} is null": lambda one: one is None,
            f"{name} is not null": lambda one: one is not None,
        }
        if not is_number:
            conditions[f"{name} like '{value[:2]}%'"] = lambda one: (
                one is not None and one.startswith(value[:2])
            )
        text = self.dice.choice(list(conditions))
        return text, lambda row: conditions[text](row.get(name))

    def _check_bounds(self, table: Any) -> None:
        scan = table.scan()
        if scan.count() != len(self.rows):
            raise AssertionError(f"{scan.count()} rows are counted instead of {len(self.rows)}")
        for name, (low, high) in scan.min_max().items():
            values = [row[name] for row in self.rows.values() if row.get(name) is not None]
            wanted = (min(values), max(values)) if values else (None, None)
            if (low.as_py(), high.as_py()) != wanted:
                raise AssertionError(f"{name}: from {low} to {high} instead of {wanted}")

    def _same_state(self, place: str, scan: Any, rows: Rows) -> None:
        names = [name for name in scan.row_type.names if name not in ("p", "k")]
        self._same(place, read_lines(scan), self._lines(self._renamed(rows, names), names))

    def _same(self, place: str, is_now: list[str], wanted: list[str]) -> None:
        if is_now != wanted:
            lacking, more = Counter(wanted) - Counter(is_now), Counter(is_now) - Counter(wanted)
            raise AssertionError(f"{place}: without {list(lacking)}, but with {list(more)}")

    def _lines(self, rows: Rows, columns: list[str]) -> list[str]:
        names = ["p", "k", *columns]
        texts = (json.dumps({name: row.get(name) for name in names}) for row in rows.values())
        return inserts(canonical(texts))

    def _ask_java(self) -> None:
        if self._table().latest_snapshot() is None:
            return
        for name, judge in self.oracles.items():
            lines = inserts(canonical(judge.read(self.root, self.name)))
            self._same(f"Java, {name}", lines, self._lines(self.rows, self.columns))

    def _check_files(self) -> None:
        for name, judge in self.oracles.items():
            found = findings(judge.fsck(self.root, self.name, deep=False))
            bad = {text for text in found if not self._is_left_by_design(text)}
            if bad:
                raise AssertionError(f"fsck of {name}: {bad}")

    def _is_left_by_design(self, finding: str) -> bool:
        """Files in the quarantine, vectors of files that compactions of Java removed, and changelogs of tags."""
        if finding.startswith("orphan"):
            return self.quarantine
        if "DV for non-live data file" in finding and self.shape.vectors:
            return self.java
        return any(name in finding for name in changelog_lists(self.root))


if __name__ == "__main__":
    main(ChoreWalk, __doc__, 30)
