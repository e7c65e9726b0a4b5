"""This module describes in words what holds when others write to the same table; `docs/concurrency.md` has
all of it. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.store.settle_time import is_read_only, is_replaceable, settle_ms

__all__ = ["OtherWriters", "other_writers"]


@dataclass(frozen=True, slots=True)
class OtherWriters:
    """This is what is known of other writers of a table. `store` is the kind of storage below it; for
    `settle_ms` see `lakecore.store.settle_time`. The other fields say what holds beside writers of lakecore,
    and beside Java Paimon 1.4 and 2.0.
    """

    store: str
    settle_ms: int
    lakecore: str
    java: str


def other_writers(options: Mapping[str, str], path: str) -> OtherWriters:
    """Return what is known of other writers of a table with these options at `path` (plain: a directory,
    s3:// or memory://).
    """
    settle = settle_ms(options, path)
    if path.startswith("memory://"):
        return OtherWriters("memory", settle, _NOTHING_LOST, "cannot open the table")
    if not is_replaceable(path):
        return OtherWriters("HDFS", settle, _NOTHING_LOST, _NOTHING_LOST)
    if is_read_only(path):
        return OtherWriters("file system of fsspec", settle, "only reads there", "is not watched")
    store = "object store" if "://" in path else "local disk"
    if settle == 0:
        java = f"may replace a commit of lakecore unnoticed: {_UNWATCHED}"
    else:
        java = f"may replace a commit of lakecore; it is committed again if that happens within {settle} ms"
    return OtherWriters(store, settle, _NOTHING_LOST, java)


_NOTHING_LOST = "no commit is lost"
_UNWATCHED = "lakecore.commit.settle-time is 0"
