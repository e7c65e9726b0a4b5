"""The chores and writes of lakecore beneath which tables change."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa

from lakecore.catalog.catalog import Catalog
from lakecore.errors import LakeError
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
from lakecore.jobs.definitions.repair import CompactManifest, Undo
from lakecore.jobs.fsck import Job as Fsck
from lakecore.jobs.fsck import run as check
from lakecore.jobs.migration import copy_table
from lakecore.jobs.repair import metadata, repair_plan
from lakecore.jobs.versions import branches, rollback, tags
from lakecore.row.json_rows import json_to_batch
from lakecore.row.order_strategy import OrderStrategy
from lakecore.verify.mode import ProofMode
from lakecore.write.row_level.clauses import MergeRules
from tests.fuzz.changes_beneath.place import KEPT, REMOVED, Place
from tests.fuzz.changes_beneath.shapes import NEW, OLD, SHAPES, TABLE, Moment, Row, Rows, lines, upsert
from tests.fuzz.changes_beneath.step import Step, job, to_middle, to_nothing
from tests.fuzz.walk_follower import Follower
from tests.support.fake_clock import FakeClock

__all__ = ["CHORES", "LATER"]

LATER = FakeClock(4_000_000_000_000)
"""It is a clock by which every file is old enough to be removed."""
_COPY = "d.copy"
_WITHOUT_PARTITIONS = tuple(name for name, shape in SHAPES.items() if not shape.partitioned)
_FIXED_BUCKETS = ("keyed", "keyed-vectors", "lookup", "append-buckets", "partial-update")
_WITH_STREAMS = ("append", "append-buckets", "keyed", "keyed-vectors", "dynamic")
"""Streams of the others are refused, have the rows of compactions only, or give a key's changes in no order."""
_NO_UPDATES = ("tracked", "evolution")
"""lakecore refuses updates of them."""


def _batch(table: Any, rows: list[Row]) -> pa.RecordBatch:
    return json_to_batch([json.dumps({"_kind": "+I"} | row) for row in rows], table.schema.row_type)


def _write(place: Place, catalog: Catalog, moment: Moment) -> None:
    table = catalog.load_table(TABLE)
    table.write(_batch(table, moment.of_chore))


def _batch_write(place: Place, catalog: Catalog, moment: Moment) -> None:
    table = catalog.load_table(TABLE)
    writer = table.new_batch_write()
    writer.write(_batch(table, moment.of_chore))
    writer.commit([writer.prepare_commit()])


def _stream_write(place: Place, catalog: Catalog, moment: Moment) -> None:
    """One checkpoint, which a writer that was started again commits a second time."""
    table = catalog.load_table(TABLE)
    writer = table.new_stream_write("strm")
    writer.write(_batch(table, moment.of_chore))
    message = writer.prepare_commit(1)
    writer.commit(1, [message])
    catalog.load_table(TABLE).new_stream_write("strm").filter_and_commit({1: [message]})


def _with_written(rows: Rows, moment: Moment) -> Rows:
    return upsert(moment.shape, rows, moment.of_chore)


def _update(place: Place, catalog: Catalog, moment: Moment) -> None:
    catalog.load_table(TABLE).update({"n": 100}, "k <= 3")


def _with_updated(rows: Rows, moment: Moment) -> Rows:
    return {key: row | {"n": 100} if row["k"] <= 3 else row for key, row in rows.items()}


def _delete(place: Place, catalog: Catalog, moment: Moment) -> None:
    catalog.load_table(TABLE).delete("k = 2")


def _without_deleted(rows: Rows, moment: Moment) -> Rows:
    return {key: row for key, row in rows.items() if row["k"] != 2}


def _merge(place: Place, catalog: Catalog, moment: Moment) -> None:
    table = catalog.load_table(TABLE)
    source = pa.Table.from_batches([_batch(table, moment.of_merge)])
    source = source.select([name for name in source.column_names if not name.startswith("_")])
    table.merge(source, tuple(SHAPES[moment.shape].primary or ("p", "k")), MergeRules())


def _with_merged(rows: Rows, moment: Moment) -> Rows:
    return upsert(moment.shape, rows, moment.of_merge)


def _old_rows(moment: Moment) -> list[Row]:
    return [row for row in moment.of_chore if row["p"] == OLD]


def _overwrite(place: Place, catalog: Catalog, moment: Moment) -> None:
    table = catalog.load_table(TABLE)
    if SHAPES[moment.shape].partitioned:
        table.overwrite(_batch(table, _old_rows(moment)), f"p={OLD}")
    else:
        table.overwrite(_batch(table, _old_rows(moment)), dynamic=False)


def _overwritten(rows: Rows, moment: Moment) -> Rows:
    stay = _without(rows, OLD) if SHAPES[moment.shape].partitioned else {}
    return upsert(moment.shape, stay, _old_rows(moment))


def _without(rows: Rows, partition: str) -> Rows:
    return {key: row for key, row in rows.items() if row["p"] != partition}


def _roll_back_to_quarantine(place: Place, catalog: Catalog, moment: Moment) -> None:
    request = rollback.RollbackTo(table=TABLE, snapshot=moment.middle, safety=KEPT)
    moment.run = rollback.run(request, catalog).run or ""
    moment.base = moment.history[moment.middle]


def _expire_to_quarantine(place: Place, catalog: Catalog, moment: Moment) -> None:
    request = expire_snapshots.Job(table=TABLE, retain_max=2, retain_min=1, safety=KEPT)
    moment.run = expire_snapshots.run(request, catalog).run or ""


def _undo(place: Place, catalog: Catalog, moment: Moment) -> None:
    quarantine.run(Undo(run_id=moment.run), catalog)


def _remove_hints(place: Place, catalog: Catalog, moment: Moment) -> None:
    for name in ("LATEST", "EARLIEST"):
        (place.warehouse / "d.db" / "t" / "snapshot" / name).unlink()


def _apply_plan(place: Place, catalog: Catalog, moment: Moment) -> None:
    """The plan is made of the table as it is without its hints."""
    report = check(Fsck(table=TABLE), catalog)
    plan = repair_plan.plan_repair(TABLE, catalog, report.report)
    request = repair_plan.Job(table=TABLE, plan=plan.to_json(), safety=REMOVED)
    repair_plan.run(request, catalog)


def _copy(place: Place, catalog: Catalog, moment: Moment) -> None:
    copy_table.run(copy_table.Job(source=TABLE, target=_COPY), catalog, target=catalog)


def _judge_copy(place: Place, moment: Moment, allowed: list[Counter[str]]) -> list[str]:
    """The copy has the rows of some moment of the table, for lakecore and for Java."""
    place.settle(moment.shape, _COPY)
    possible = [*allowed, lines(moment.base.values())]
    read = {"lakecore": place.rows(_COPY), "Java": place.java_rows(_COPY)}
    return [f"{who}: the copy has other rows" for who, rows in read.items() if lines(rows) not in possible]


def _create_tag_of_a_moment(place: Place, catalog: Catalog, moment: Moment) -> None:
    tag = tags.CreateTag(table=TABLE, tag="brief", snapshot=moment.middle, time_retained_ms=1)
    tags.run(tag, catalog)


def _open_stream(place: Place, catalog: Catalog, moment: Moment) -> None:
    """A stream of the table has read all, and then a row comes."""
    primary = SHAPES[moment.shape].primary or ["p", "k"]
    moment.stream = Follower(lambda row: tuple(row[name] for name in primary))
    moment.stream.poll(catalog.load_table(TABLE))
    _write(place, catalog, moment)
    moment.base = _with_written(moment.base, moment)


def _go_on_with_stream(place: Place, catalog: Catalog, moment: Moment) -> None:
    assert moment.stream is not None
    table = catalog.load_table(TABLE)
    moment.stream.reopen(table, moment.stream.rows)
    moment.stream.poll(table)


def _judge_stream(place: Place, moment: Moment, allowed: list[Counter[str]]) -> list[str]:
    """When the stream has read all it has the rows of the table, or it has said that it cannot go on."""
    assert moment.stream is not None
    try:
        moment.stream.poll(place.catalog().load_table(TABLE))
    except LakeError:
        return []
    read = lines(moment.stream.rows.values())
    if not moment.in_stream or read in allowed:
        return []
    return [f"the stream has added up {sorted(read.elements())}"]


CHORES = (
    Step("compact", job(compact, compact.Job, strategy=compact.Strategy.FULL), writes=True),
    Step(
        "compact-with-full-proof",
        job(
            compact,
            compact.Job,
            strategy=compact.Strategy.FULL,
            proof=ProofMode.FULL,
            copy=next(iter(CopyMode)),
        ),
        writes=True,
    ),
    Step(
        "compact-universal",
        job(compact, compact.Job, strategy=compact.Strategy.UNIVERSAL, copy=list(CopyMode)[-1]),
        writes=True,
    ),
    Step(
        "sort",
        job(compact, compact.Job, order_strategy=OrderStrategy.ZORDER, order_by=("k", "v")),
        only=("append", "append-vectors"),
        writes=True,
    ),
    Step("rescale", job(rescale, rescale.Job, bucket_num=3), only=_FIXED_BUCKETS, writes=True),
    Step(
        "expire-snapshots",
        job(expire_snapshots, expire_snapshots.Job, retain_max=2, retain_min=1, safety=REMOVED),
    ),
    Step(
        "expire-snapshots-to-quarantine",
        job(expire_snapshots, expire_snapshots.Job, retain_max=2, retain_min=1, safety=KEPT),
    ),
    Step(
        "expire-to-changelogs",
        job(expire_snapshots, expire_snapshots.Job, retain_max=2, retain_min=1, safety=REMOVED),
        prepare=lambda place, catalog, moment: catalog.alter_table(
            TABLE, [{"op": "set", "key": "changelog.num-retained.max", "value": "6"}]
        ),
    ),
    Step(
        "remove-orphan-files", job(remove_orphan_files, remove_orphan_files.Job, safety=REMOVED, clock=LATER)
    ),
    Step("create-tag", job(tags, tags.CreateTag, tag="new", snapshot=lambda moment: moment.middle)),
    Step("delete-tag", job(tags, tags.DeleteTag, tags=("t2",), safety=REMOVED)),
    Step(
        "replace-tag",
        job(tags, tags.ReplaceTag, tag="t2", snapshot=lambda moment: moment.middle, safety=REMOVED),
    ),
    Step(
        "expire-tags",
        job(tags, tags.ExpireTags, safety=REMOVED, clock=LATER),
        prepare=_create_tag_of_a_moment,
    ),
    Step(
        "rollback",
        job(rollback, rollback.RollbackTo, snapshot=lambda moment: moment.middle, safety=REMOVED),
        to_middle,
        several=True,
    ),
    Step(
        "rollback-to-quarantine",
        job(rollback, rollback.RollbackTo, snapshot=lambda moment: moment.middle, safety=KEPT),
        to_middle,
        several=True,
    ),
    Step(
        "rollback-as-latest",
        job(rollback, rollback.RollbackToAsLatest, snapshot=lambda moment: moment.middle, safety=REMOVED),
        to_middle,
    ),
    Step(
        "fast-forward",
        job(branches, branches.FastForward, branch="br"),
        lambda rows, moment: moment.tagged,
        several=True,
    ),
    Step("delete-branch", job(branches, branches.DeleteBranch, branch="br", safety=REMOVED)),
    Step("compact-manifest", job(metadata, CompactManifest)),
    Step("analyze", job(analyze, analyze.Job, columns=("all",))),
    Step(
        "rewrite-file-index",
        job(
            rewrite_file_index,
            rewrite_file_index.Job,
            options={"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"},
        ),
        writes=True,
    ),
    Step(
        "purge-files",
        job(purge_files, purge_files.Job, safety=REMOVED, clock=LATER),
        to_nothing,
        several=True,
    ),
    Step(
        "drop-partition",
        job(partitions, partitions.DropPartition, partitions=f"p={NEW}"),
        lambda rows, moment: _without(rows, NEW),
        skip=_WITHOUT_PARTITIONS,
    ),
    Step(
        "expire-partitions",
        job(
            partitions,
            partitions.ExpirePartitions,
            expiration_ms=365 * 86_400_000,
            timestamp_formatter="yyyy-MM-dd",
            timestamp_pattern="$p",
        ),
        lambda rows, moment: _without(rows, OLD),
        skip=_WITHOUT_PARTITIONS,
    ),
    Step(
        "undo-rollback",
        _undo,
        lambda rows, moment: moment.history[max(moment.history)],
        several=True,
        prepare=_roll_back_to_quarantine,
    ),
    Step("undo-expiry", _undo, prepare=_expire_to_quarantine),
    Step("apply-repair-plan", _apply_plan, prepare=_remove_hints),
    Step("copy", _copy, judge=_judge_copy),
    Step(
        "stream",
        _go_on_with_stream,
        prepare=_open_stream,
        judge=_judge_stream,
        killed=False,
        only=_WITH_STREAMS,
    ),
    Step("write", _write, _with_written, appends=True, writes=True),
    Step("batch-write", _batch_write, _with_written, appends=True, writes=True),
    Step("stream-write", _stream_write, _with_written, appends=True, writes=True),
    Step("update", _update, _with_updated, skip=_NO_UPDATES, writes=True),
    Step("delete", _delete, _without_deleted, skip=("partial-update",), writes=True),
    Step("merge", _merge, _with_merged, skip=("moves", *_NO_UPDATES), writes=True),
    Step("overwrite", _overwrite, _overwritten, skip=("moves",), writes=True),
)
