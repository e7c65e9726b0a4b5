"""What Java Paimon or another process of lakecore does to the table beneath a chore."""

from __future__ import annotations

import json
from typing import Any

from lakecore.catalog.catalog import Catalog
from lakecore.jobs import compact, expire_snapshots, rescale
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import rollback
from lakecore.row.json_rows import json_to_batch
from tests.fuzz.changes_beneath.place import REMOVED, Place
from tests.fuzz.changes_beneath.shapes import OLD, SHAPES, TABLE, Moment, Rows, schema_of, upsert
from tests.fuzz.changes_beneath.step import Act, Step, job, to_middle, to_nothing

__all__ = ["CHANGES"]

_CROSS_PARTITION = ("moves",)
"""Java's writer of the oracle refuses tables whose keys move between partitions."""
_WITHOUT_PARTITIONS = tuple(name for name, shape in SHAPES.items() if not shape.partitioned)
_FIXED_BUCKETS = ("keyed", "keyed-vectors", "lookup", "append-buckets", "partial-update")


def _java(command: str, *args: object, which: str | None = None) -> Act:
    """A command of the oracle; an argument that is a function is asked for the moment."""

    def act(place: Place, catalog: Catalog, moment: Moment) -> None:
        values = [arg(moment) if callable(arg) else arg for arg in args]
        place.java(which or moment.java, command, *values)

    return act


def _alter(**change: Any) -> Act:
    return _java("alter", json.dumps([change]))


def _set(key: str, value: str) -> Act:
    return _alter(op="set", key=key, value=value)


def _then(*acts: Act) -> Act:
    def act(place: Place, catalog: Catalog, moment: Moment) -> None:
        for one in acts:
            one(place, catalog, moment)

    return act


def _java_write(*flags: str) -> Act:
    def act(place: Place, catalog: Catalog, moment: Moment) -> None:
        place.java_write(moment.java, moment.of_change, *flags)

    return act


def _branch_write(place: Place, catalog: Catalog, moment: Moment) -> None:
    place.judges[moment.java].write(place.warehouse, f"{TABLE}$branch_br", moment.of_change)


def _without_v(rows: Rows, moment: Moment) -> Rows:
    return {key: row | {"v": None} for key, row in rows.items()}


def _with_text(rows: Rows, moment: Moment) -> Rows:
    return {key: row | {"n": str(row["n"])} for key, row in rows.items()}


def _with_written(rows: Rows, moment: Moment) -> Rows:
    return upsert(moment.shape, rows, moment.of_change)


def _java_compact(place: Place, catalog: Catalog, moment: Moment) -> None:
    place.judges[moment.java].compact(place.warehouse, TABLE, full=True)


def _middle(moment: Moment) -> int:
    return moment.middle


def _roll_back_and_write(place: Place, catalog: Catalog, moment: Moment) -> None:
    """Afterwards the table has as many snapshots as before, and others."""
    place.java(moment.java, "rollback", "--snapshot", moment.middle)
    for number in range(moment.later):
        place.java_write(moment.java, moment.further(number) if number else moment.of_change)


def _rolled_back_and_written(rows: Rows, moment: Moment) -> Rows:
    after = upsert(moment.shape, moment.history[moment.middle], moment.of_change)
    for number in range(1, moment.later):
        after = upsert(moment.shape, after, moment.further(number))
    return after


def _create_again(place: Place, catalog: Catalog, moment: Moment) -> None:
    place.java(moment.java, "drop")
    _create_anew(place, moment, schema_of(moment.shape))


def _create_other(place: Place, catalog: Catalog, moment: Moment) -> None:
    """The fields of the new table have other ids."""
    place.java(moment.java, "drop")
    columns = ["n INT", "v STRING", "k INT NOT NULL", "p STRING NOT NULL"]
    _create_anew(place, moment, schema_of(moment.shape) | {"columns": columns})


def _create_bare(place: Place, catalog: Catalog, moment: Moment) -> None:
    place.java(moment.java, "drop")
    place.judges[moment.java].create(place.warehouse, TABLE, schema_of(moment.shape))


def _rename_and_create(place: Place, catalog: Catalog, moment: Moment) -> None:
    place.judges[moment.java].call("catalog", place.warehouse, "rename", TABLE, "d.other")
    _create_anew(place, moment, schema_of(moment.shape))


def _create_anew(place: Place, moment: Moment, schema: dict[str, Any]) -> None:
    place.judges[moment.java].create(place.warehouse, TABLE, schema)
    place.java_write(moment.java, moment.of_change)
    place.java_write(moment.java, moment.further(1))


def _created_again(rows: Rows, moment: Moment) -> Rows:
    return upsert(moment.shape, {}, moment.of_change + moment.further(1))


def _replace_tag(place: Place, catalog: Catalog, moment: Moment) -> None:
    place.java(moment.java, "delete-tag", "t2")
    place.java(moment.java, "create-tag", "t2", "--snapshot", moment.middle)


def _reset_consumer(place: Place, catalog: Catalog, moment: Moment) -> None:
    place.java("new", "reset-consumer", "reader", moment.low)


def _lake_write(place: Place, catalog: Catalog, moment: Moment) -> None:
    table = catalog.load_table(TABLE)
    texts = [json.dumps({"_kind": "+I"} | row) for row in moment.of_change]
    table.write(json_to_batch(texts, table.schema.row_type))


def _lake_update(place: Place, catalog: Catalog, moment: Moment) -> None:
    """An update sees what reads see, so rows of the chore that reads leave out are compacted first."""
    place.settle(moment.shape)
    catalog.load_table(TABLE).update({"v": "upd"}, "k <= 4")


def _updated(rows: Rows, moment: Moment) -> Rows:
    return {key: row | {"v": "upd"} if row["k"] <= 4 else row for key, row in rows.items()}


CHANGES = (
    Step("java-write", _java_write(), _with_written, skip=_CROSS_PARTITION),
    Step(
        "java-write-and-compact",
        _java_write("--option", "write-only=false"),
        _with_written,
        skip=_CROSS_PARTITION,
    ),
    Step("java-compact", _java_compact, skip=_CROSS_PARTITION),
    Step("java-rollback", _java("rollback", "--snapshot", _middle), to_middle),
    Step(
        "java-rollback-far",
        _java("rollback", "--snapshot", lambda moment: moment.low),
        lambda rows, moment: moment.history[moment.low],
    ),
    Step("java-rollback-and-writes", _roll_back_and_write, _rolled_back_and_written, skip=_CROSS_PARTITION),
    Step("java-expire-snapshots", _java("expire-snapshots", "--retain-max", 1, "--retain-min", 1)),
    Step(
        "java-drop-partition",
        _java("drop-partitions", f"p={OLD}"),
        lambda rows, moment: {key: row for key, row in rows.items() if row["p"] != OLD},
        in_stream=False,
        skip=_WITHOUT_PARTITIONS,
    ),
    Step("java-truncate", _java("truncate"), to_nothing, in_stream=False),
    Step(
        "java-overwrite",
        _java_write("--overwrite", "all"),
        lambda rows, moment: upsert(moment.shape, {}, moment.of_change),
        in_stream=False,
        skip=_CROSS_PARTITION,
    ),
    Step("java-create-again", _create_again, _created_again, skip=_CROSS_PARTITION),
    Step("java-create-other", _create_other, _created_again, skip=_CROSS_PARTITION),
    Step("java-create-bare", _create_bare, to_nothing),
    Step("java-rename-and-create", _rename_and_create, _created_again, skip=_CROSS_PARTITION),
    Step("java-drop", _java("drop"), to_nothing),
    Step("java-add-column", _alter(op="add", name="x", type="INT")),
    Step(
        "java-add-column-and-write",
        _then(_alter(op="add", name="x", type="INT", after="k"), _java_write()),
        _with_written,
        skip=_CROSS_PARTITION,
    ),
    Step("java-drop-column", _alter(op="drop", name="v"), _without_v, in_stream=False),
    Step("java-rename-column", _alter(op="rename", name="v", to="w"), _without_v, in_stream=False),
    Step(
        "java-replace-column",
        _then(_alter(op="drop", name="v"), _alter(op="add", name="v", type="STRING")),
        _without_v,
        in_stream=False,
    ),
    Step("java-text-column", _alter(op="type", name="n", type="STRING"), _with_text, in_stream=False),
    Step(
        "java-wider-column",
        _then(_alter(op="type", name="n", type="BIGINT"), _java_compact),
        skip=_CROSS_PARTITION,
    ),
    Step("java-move-column", _alter(op="move", name="n", first=True)),
    Step("java-buckets", _set("bucket", "3"), only=_FIXED_BUCKETS),
    Step("java-producer", _set("changelog-producer", "lookup"), only=("keyed", "dynamic", "partial-update")),
    Step("java-format", _set("file.format", "avro")),
    Step("java-vectors", _set("deletion-vectors.enabled", "true"), only=("keyed", "dynamic", "append")),
    Step(
        "java-vectors-and-compact",
        _then(_set("deletion-vectors.enabled", "true"), _java_compact),
        only=("keyed", "dynamic", "append"),
    ),
    Step(
        "java-data-directory",
        _then(_set("data-file.path-directory", "data"), _java_write()),
        _with_written,
        skip=_CROSS_PARTITION,
    ),
    Step("java-sequence", _set("sequence.field", "n"), only=("keyed",)),
    Step("java-retention", _set("snapshot.num-retained.max", "1")),
    Step("java-write-only", _alter(op="unset", key="write-only")),
    Step("java-manifest-size", _set("manifest.full-compaction-threshold-size", "1 b")),
    Step("java-create-tag", _java("create-tag", "jt", "--snapshot", lambda moment: min(moment.history))),
    Step("java-create-tag-later", _java("create-tag", "jt", "--snapshot", _middle)),
    Step("java-delete-tag", _java("delete-tag", "t2")),
    Step("java-replace-tag", _replace_tag),
    Step("java-create-branch", _java("create-branch", "jb", "--tag", "t2")),
    Step("java-fast-forward", _java("fast-forward", "br"), lambda rows, moment: moment.tagged),
    Step(
        "java-branch-write-and-fast-forward",
        _then(_branch_write, _java("fast-forward", "br")),
        lambda rows, moment: upsert(moment.shape, moment.tagged, moment.of_change),
        skip=(*_CROSS_PARTITION, "postpone"),  # a row that waits comes after the row of a later batch write
    ),
    Step("java-rollback-to-tag", _java("rollback", "--tag", "t2"), lambda rows, moment: moment.tagged),
    Step("java-delete-branch", _java("delete-branch", "br")),
    Step("java-delete-consumer", _java("clear-consumers", "--including", "reader"), prepare=_reset_consumer),
    Step("java-remove-orphan-files", _java("remove-orphan-files")),
    Step("java-compact-manifests", _java("compact-manifests", which="new")),
    Step(
        "java-purge-files",
        _java("purge-files", which="new"),
        to_nothing,
        in_stream=False,
        beneath_writers=False,
    ),
    Step("lake-write", _lake_write, _with_written),
    Step("lake-update", _lake_update, _updated, skip=("tracked", "evolution")),
    Step("lake-compact", job(compact, compact.Job, strategy=compact.Strategy.FULL)),
    Step("lake-rescale", job(rescale, rescale.Job, bucket_num=2), only=_FIXED_BUCKETS),
    Step(
        "lake-expire-snapshots",
        job(expire_snapshots, expire_snapshots.Job, retain_max=1, retain_min=1, safety=REMOVED),
    ),
    Step(
        "lake-rollback",
        job(
            rollback,
            rollback.RollbackTo,
            snapshot=_middle,
            safety=Safety(owner="other", quarantine=False),
        ),
        to_middle,
    ),
)
