"""fsck as a whole and in groups of buckets: both must find the same."""

from __future__ import annotations

from unittest.mock import patch

from lakecore.fs.file_io import FileIO
from lakecore.store.paths import TablePaths
from lakecore.verify.fsck import check
from lakecore.verify.fsck.findings import FsckReport


def check_both_ways(file_io: FileIO, paths: TablePaths, *, now_ms: int, **mode: bool) -> FsckReport:
    """Check the table as a whole, bucket by bucket, and in groups of a few entries. Raises AssertionError if the reports
    differ.
    """
    whole = check.fsck(file_io, paths, now_ms=now_ms, **mode)
    for most in (1, 7):
        with patch.object(check, "PASS_ENTRIES", most):
            in_groups = check.fsck(file_io, paths, now_ms=now_ms, **mode)
        assert in_groups == whole, f"in groups of {most} entries"
    return whole
