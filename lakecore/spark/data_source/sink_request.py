"""This module parses the options of a save. An option that nothing obeys is refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.format.writer_options import COMPRESSION, ZSTD_LEVEL
from lakecore.metadata.options import FILE_FORMAT, TARGET_FILE_SIZE, BucketMode
from lakecore.options import Option
from lakecore.spark.data_source.request import BRANCH, TablePlace
from lakecore.spark.versions import arrow_schema_of
from lakecore.table import Table
from lakecore.write.options import DYNAMIC_OVERWRITE, OVERWRITE_UPGRADE, SPILLABLE, WRITE_BUFFER
from lakecore.write.rows.event_time import WATERMARK_COLUMN
from lakecore.write.rows.incoming import Incoming
from lakecore.write.rows.local_merge import BUFFER_SIZE
from lakecore.write.stream_write import IGNORE_EMPTY

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["SinkRequest", "check_columns", "warn_without_shuffle"]

logger = logging.getLogger(__name__)

PARTITIONS: Option[str | None] = Option(
    "partitions", str.strip, None, "The partitions that an overwrite replaces: `dt=a,hh=b;dt=c`."
)
_OWN = (BRANCH, PARTITIONS)
_OF_BATCHES = (PARTITIONS, DYNAMIC_OVERWRITE, OVERWRITE_UPGRADE)
_OF_SPARK = ("checkpointlocation", "queryname")
"""Spark adds these options of a streaming query to those of the sink."""
_OBEYED: tuple[Option[Any], ...] = (
    DYNAMIC_OVERWRITE, OVERWRITE_UPGRADE, WRITE_BUFFER, SPILLABLE, BUFFER_SIZE, FILE_FORMAT, COMPRESSION,
    ZSTD_LEVEL, TARGET_FILE_SIZE, IGNORE_EMPTY, WATERMARK_COLUMN,
)  # fmt: skip
_OF_TABLE = frozenset(key for option in _OBEYED for key in option.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRequest:
    """It holds what the options of a write say."""

    place: TablePlace
    table_options: Mapping[str, str]
    branch: str | None
    partitions: str | None

    @classmethod
    def of_stream(cls, options: Mapping[str, str], of_kind: frozenset[str] = frozenset()) -> SinkRequest:
        """Check the options of a streaming query, see `parse`. Those of an overwrite are refused."""
        for key in sorted({key for option in _OF_BATCHES for key in option.keys} & set(options)):
            raise InvalidOptionError(f"option {key}: a stream does not overwrite; leave it out")
        return cls.parse({key: value for key, value in options.items() if key not in _OF_SPARK}, of_kind)

    @classmethod
    def parse(cls, options: Mapping[str, str], of_kind: frozenset[str] = frozenset()) -> SinkRequest:
        """Check the options; their keys are in lower case. `of_kind` are those that only the kind of catalog
        has. Raises InvalidOptionError naming the option and what there is instead.
        """
        return cls(
            place=TablePlace.parse(options, {option.key for option in _OWN} | _OF_TABLE, of_kind),
            table_options={key: value for key, value in options.items() if key in _OF_TABLE},
            branch=BRANCH.read(options),
            partitions=PARTITIONS.read(options),
        )


def check_columns(table: Table, schema: StructType) -> None:
    """Raise InvalidInputError for a DataFrame that the table does not take. It may have no rows, so that no
    task looks at its columns.
    """
    Incoming(table.schema, table.options).check(arrow_schema_of(schema))


_ONE_TASK: Mapping[BucketMode, str] = {
    BucketMode.HASH_FIXED: "all rows of a bucket",
    BucketMode.POSTPONE: "all rows of a partition or bucket",
    BucketMode.HASH_DYNAMIC: "all rows of a partition",
    BucketMode.KEY_DYNAMIC: "all rows",
}


def warn_without_shuffle(table: Table, function: str) -> None:
    """Log a warning for a table whose rows Spark must shuffle, unless they are in the right tasks already:
    the format cannot shuffle, and its commit is refused otherwise. The warning names `function`, which
    shuffles.
    """
    rows = _ONE_TASK.get(table.options.bucket_mode)
    if rows is not None:
        logger.warning(
            "table %s: the format lakecore does not shuffle, and a commit is refused unless one task has %s; "
            "use lakecore.spark.%s, which shuffles rows to parallel writers, or coalesce(1)",
            table.name,
            rows,
            function,
        )
