"""This module reads what Spark stores of a streaming query in its checkpoint location."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Checkpoint", "read_checkpoint"]

_GLOB = re.compile(r"([\\{}\[\]*?])")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """It is the state of a query at which a restart begins."""

    location: str
    query_id: str
    batches: tuple[int, ...]
    """These are the numbers of the micro-batches that Spark knows to be committed, in order. Spark keeps some
    hundred.
    """

    def last_batch(self) -> int:
        """Return the last micro-batch. Raises InvalidInputError without one."""
        if not self.batches:
            raise InvalidInputError(
                f"the checkpoint {self.location} has no micro-batch that is committed; tag it after the first"
            )
        return self.batches[-1]

    def check_batch(self, number: int) -> None:
        """Raise InvalidInputError unless Spark knows that the micro-batch is committed."""
        if number not in self.batches:
            range_text = f"{self.batches[0]} to {self.batches[-1]}" if self.batches else "none"
            raise InvalidInputError(
                f"the checkpoint {self.location} does not say that micro-batch {number} is committed; choose "
                f"one that it has: {range_text}"
            )


def read_checkpoint(spark: SparkSession, location: str) -> Checkpoint:
    """Read a checkpoint, or a copy of one, by Spark, which knows its storage. It costs two small queries.

    Raises InvalidInputError for a location that has none.
    """
    from pyspark.errors import AnalysisException

    root = _GLOB.sub(r"\\\1", location.rstrip("/"))
    try:
        lines = spark.read.text(f"{root}/metadata").collect()
        query_id = json.loads(lines[0].value)["id"]
        files = spark.read.format("binaryFile").load(f"{root}/commits").select("path").collect()
    except (AnalysisException, LookupError, TypeError, ValueError) as err:
        raise InvalidInputError(
            f"{location!r} is no checkpoint of a streaming query; give the checkpoint location of the query, "
            "or a copy of it"
        ) from err
    names = (file.path.rsplit("/", 1)[-1] for file in files)
    return Checkpoint(location, str(query_id), tuple(sorted(int(name) for name in names if name.isdecimal())))
