"""This module estimates how much memory the plan of a table will take, from its manifest lists."""

from __future__ import annotations

from lakecore.errors import NotFoundError
from lakecore.scan.scanner import Scanner

__all__ = ["FILE_BYTES", "plan_bytes"]

FILE_BYTES = 3_000
"""The driver's memory for a file of a plan has so many bytes. They were measured with 11 columns: 1 kB as
columns of manifests, 1.6 kB once picked.
"""


def plan_bytes(scanner: Scanner) -> int:
    """Return an upper bound of the bytes of a plan: every entry of the manifests counts as a file that is
    picked.

    It costs reads of the latest snapshot and its manifest lists; 0 when these expired meanwhile.
    """
    snapshot = scanner.stores.snapshots.latest()
    if snapshot is None:
        return 0
    try:
        entries = sum(file.entry_count for file in scanner.stores.manifests.data_manifests(snapshot))
    except NotFoundError:
        return 0
    return entries * FILE_BYTES
