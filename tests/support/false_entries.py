"""Manifest entries that say something else than their files: what a proof must refuse."""

from __future__ import annotations

from dataclasses import replace

from lakecore.commit.request import CommitRequest
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import EMPTY_ROW
from lakecore.table import Table

__all__ = ["told_wrongly"]


def told_wrongly(table: Table, bucket: int) -> None:
    """A file of level 0 of a bucket is said to hold one row more than it does."""
    latest = table._stores.snapshots.latest()
    assert latest is not None
    entries = [entry for entry in table._scanner.live_entries(latest) if entry.bucket == bucket]
    old = next(entry.file for entry in entries if entry.file.level == 0)
    new = replace(old, file_name=f"data-wrong-{old.file_name}", row_count=old.row_count + 1)
    folder = table._read_context().bucket_dir(EMPTY_ROW, bucket)
    table._stores.file_io.write_new(
        f"{folder}/{new.file_name}", table._stores.file_io.read(f"{folder}/{old.file_name}")
    )
    message = CommitMessage(
        partition=EMPTY_ROW,
        bucket=bucket,
        total_buckets=entries[0].total_buckets,
        compact_before=(old,),
        compact_after=(new,),
    )
    table._committer().commit([message], CommitRequest(user="other", identifier=1))
