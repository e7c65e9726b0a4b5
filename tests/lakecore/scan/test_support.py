"""What is refused, and that the message names table, option, value and a way out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lakecore.errors import UnsupportedError
from lakecore.metadata.manifest.data_file import EMPTY_ROW
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, HASH_INDEX, DeletionRange, IndexFile
from lakecore.metadata.options import TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.scan.support import (
    check_compactable,
    check_emits_changes,
    check_index_files,
    check_readable,
    check_writable,
)
from tests.support.builders import table_schema


def verdict(schema: TableSchema) -> str:
    """`rwc`, with a dash for what is refused; each message names table, option and value."""
    checks = (("r", check_readable), ("w", check_writable), ("c", check_compactable))
    return "".join("-" if _is_refused(check, schema) else letter for letter, check in checks)


def _is_refused(check: Callable[..., None], schema: TableSchema) -> bool:
    message = ""
    try:
        check("db.t", schema, TableOptions.from_schema(schema))
    except UnsupportedError as err:
        message = str(err)
    ways_out = ("use another engine", "opens only the types", "unset it")
    assert not message or "table db.t: option " in message
    assert not message or any(way in message for way in ways_out)
    return bool(message)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("", "rwc"),
        ("merge-engine=deduplicate", "rwc"),
        ("merge-engine=partial-update", "rwc"),
        ("merge-engine=aggregation", "rwc"),
        ("merge-engine=first-row", "rwc"),
        ("merge-engine=aggregation;changelog-producer=lookup", "rwc"),
        ("merge-engine=partial-update;changelog-producer=full-compaction", "rwc"),
        ("merge-engine=partial-update;force-lookup=true", "rwc"),
        ("changelog-producer=input", "rwc"),
        ("changelog-producer=lookup", "rwc"),
        ("changelog-producer=full-compaction", "rwc"),
        ("force-lookup=true", "rwc"),
        ("deletion-vectors.enabled=true", "rwc"),
        ("deletion-vectors.enabled=true;merge-engine=aggregation", "rwc"),
        ("deletion-vectors.enabled=true;deletion-vectors.merge-on-read=true;merge-engine=aggregation", "rwc"),
        ("force-lookup=true;changelog-producer=full-compaction;merge-engine=aggregation", "r--"),
        ("force-lookup=true;changelog-producer=full-compaction;sequence.field=v", "---"),
        ("force-lookup=true;changelog-producer=full-compaction", "rwc"),
        ("force-lookup=true;sequence.field=v", "rwc"),
        ("pk-clustering-override=true;deletion-vectors.enabled=true;clustering.columns=v", "rwc"),
        ("pk-clustering-override=true;clustering.columns=v;merge-engine=first-row", "rwc"),
        ("pk-clustering-override=true;clustering.columns=v", "r--"),
        ("pk-clustering-override=true;deletion-vectors.enabled=true", "r--"),
        ("pk-clustering-override=true;deletion-vectors.enabled=true;clustering.columns=v;bucket=-2", "r--"),
        ("bucket=-1", "rwc"),
        ("bucket=-2", "rwc"),
        ("bucket=-2;postpone.merge-on-read=true", "-wc"),
        ("scan.bucket=0", "-wc"),
        ("sequence.field=v;sequence.field.sort-order=descending", "rwc"),
        ("sequence.snapshot-ordering=true;write-only=true", "rwc"),
        ("sequence.snapshot-ordering=true;write-only=true;bucket=-2", "rwc"),
        ("rowkind.field=v", "rwc"),
        ("ignore-delete=true", "rwc"),
        ("data-file.thin-mode=true", "rwc"),
        ("record-level.expire-time=1 h;record-level.time-field=v", "rwc"),
        ("record-level.expire-time=1 h;record-level.time-field=v;changelog-producer=lookup", "rwc"),
        ("file-index.bloom-filter.columns=v", "rwc"),
        ("file-index.in-manifest-threshold=1 kb", "rwc"),
        ("data-file.external-paths=s3://b/x;data-file.external-paths.strategy=round-robin", "rwc"),
        ("scan.fallback-branch=b", "rwc"),
        ("chain-table.enabled=true", "---"),
        ("scan.mode=compacted-full", "rwc"),
        ("scan.mode=latest-full", "rwc"),
        ("scan.snapshot-id=3", "rwc"),
        ("type=format-table", "---"),
    ],
)
def test_keyed_tables(options: str, wanted: str) -> None:
    raw = dict(option.split("=", 1) for option in options.split(";") if option)
    assert verdict(table_schema(options=raw)) == wanted


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("bucket=-1", "rwc"),
        ("bucket=2;bucket-key=k", "rwc"),
        ("merge-engine=aggregation;bucket=-1", "rwc"),
        ("row-tracking.enabled=true;bucket=-1", "rwc"),
        ("data-evolution.enabled=true;row-tracking.enabled=true;bucket=-1", "rwc"),
        ("deletion-vectors.enabled=true;bucket=-1", "rwc"),
        ("clustering.incremental=true;bucket=-1", "rwc"),
    ],
)
def test_append_tables(options: str, wanted: str) -> None:
    raw = dict(option.split("=", 1) for option in options.split(";"))
    assert verdict(table_schema(primary_keys=(), options=raw)) == wanted


def test_streams_of_files_for_compactions() -> None:
    with pytest.raises(UnsupportedError, match=r"db\.t: option stream-scan-mode=file-monitor.*unset it"):
        check_emits_changes("db.t", {"stream-scan-mode": "file-monitor"})
    check_emits_changes("db.t", {"stream-scan-mode": "none"})


def test_cross_partition_tables() -> None:
    schema = table_schema(
        "p INT, k BIGINT NOT NULL", primary_keys=("k",), partition_keys=("p",), options={"bucket": "-1"}
    )
    assert verdict(schema) == "rwc"
    schema = replace(schema, options={**schema.options, "ignore-delete": "true"})
    assert verdict(schema) == "rwc", "a key that would have to leave its partition is refused when it comes"


def index_file(kind: str, rows: int = 3, *ranges: DeletionRange) -> IndexFile:
    return IndexFile(
        partition=EMPTY_ROW, bucket=0, index_type=kind, file_name="index-1", file_size=9, row_count=rows,
        deletions=ranges,
    )  # fmt: skip


def test_deletion_vectors_count_where_the_option_is_off() -> None:
    with pytest.raises(UnsupportedError, match=r"table db\.t: snapshot 7 has deletion vectors \(index-1\)"):
        check_index_files("db.t", 7, [index_file(DELETION_VECTORS, 1, DeletionRange("f", 1, 9))])


def test_other_index_files_hide_nothing() -> None:
    check_index_files(
        "db.t", 7, [index_file(HASH_INDEX), index_file(DELETION_VECTORS, 0), index_file("btree")]
    )
