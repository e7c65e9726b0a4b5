"""Tables that small writes encode with several threads: small row groups, and threads for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.format.encoders import Encoders
from lakecore.format.parquet import group_encoder
from lakecore.write import session
from lakecore.write.files import append_writer
from lakecore.write.rows import sort_buffer

__all__ = ["COLUMNS", "SHAPES", "Work", "definition", "encoding_threads", "rows_of_shape"]

COLUMNS = ["p INT NOT NULL", "k INT NOT NULL", "v STRING", "d DOUBLE"]
_SMALL = {"file.block-size": "2 kb"}
_BITMAP = {"file-index.bitmap.columns": "v", "file-index.in-manifest-threshold": "1 b"}

SHAPES: Mapping[str, dict[str, Any]] = {
    "append": {},
    "append-partitioned": {"partitionKeys": ["p"], "options": _BITMAP},
    "append-vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "append-tracked": {"options": {"row-tracking.enabled": "true"}},
    "append-rolling": {"options": {"target-file-size": "2 kb"}},
    "keyed": {
        "primaryKeys": ["p", "k"],
        "options": {"bucket": "1", "write-buffer-size": "4 kb"} | _BITMAP,
    },
    "keyed-buckets": {
        "primaryKeys": ["p", "k"],
        "options": {"bucket": "3", "changelog-producer": "input", "write-buffer-size": "16 kb"},
    },
    "keyed-flushes": {
        "primaryKeys": ["p", "k"],
        "options": {"bucket": "3", "write-buffer-spillable": "false", "write-buffer-size": "16 kb"},
    },
    "keyed-partitioned": {
        "primaryKeys": ["p", "k"],
        "partitionKeys": ["p"],
        "options": {"bucket": "2", "deletion-vectors.enabled": "true", "target-file-size": "2 kb"},
    },
    "dynamic": {
        "primaryKeys": ["p", "k"],
        "options": {"bucket": "-1", "dynamic-bucket.target-row-num": "150"},
    },
    "moving": {"primaryKeys": ["k"], "partitionKeys": ["p"], "options": {"bucket": "-1"}},
    "postponed": {"primaryKeys": ["p", "k"], "options": {"bucket": "-2"}},
}


def definition(shape: str) -> dict[str, Any]:
    """The definition of a table of this shape."""
    made = SHAPES[shape]
    options = {"write-only": "true", **_SMALL, **made.get("options", {})}
    return {"columns": COLUMNS, **made, "options": options}


def rows_of_shape(count: int = 400, first: int = 0) -> pa.Table:
    """Rows of all shapes, some of them with the key of others."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "p": pa.array([number % 2 for number in numbers], pa.int32()),
            "k": pa.array([number * 7 % (count * 3 // 4) for number in numbers], pa.int32()),
            "v": [None if number % 9 == 0 else f"value {number % 31}" for number in numbers],
            "d": [number / 8 for number in numbers],
        }
    )


@dataclass(slots=True)
class Work:
    """It counts what the threads did."""

    begun: int = 0
    most_waiting: int = 0
    """The most row groups that were begun and not taken."""


@contextmanager
def encoding_threads(threads: int) -> Iterator[Work]:
    """Let writes use so many threads, and those for every row group; with 1 none. Rows pass in small batches."""
    work, begin = Work(), Encoders.begin

    def counted(
        self: Encoders, owner: object, encode: Callable[[], Any], take: Callable[[Any], None]
    ) -> None:
        begin(self, owner, encode, take)
        work.begun += 1
        work.most_waiting = max(work.most_waiting, len(self._begun))

    with (
        patch.object(session, "core_count", lambda: threads),
        patch.object(group_encoder, "_WORTH_BYTES", 1),
        patch.object(append_writer, "_BUFFER_BYTES", 1),
        patch.object(sort_buffer, "_CHUNK_BYTES", 1 << 10),
        patch.object(Encoders, "begin", counted),
    ):
        yield work
