"""One side of `tests.bench.stream_delay`: a process with a streaming query over a table, into a sink that notes when each row
is there, or into another table.

    python -m tests.bench.stream_follower lakecore WAREHOUSE
    python -m tests.bench.stream_follower paimon WAREHOUSE JAR

The side `paimon` runs with the Python of another environment (PySpark 3.5), which has no lakecore. The lines are `ready`,
`note TABLE CHECKPOINT TRIGGER_MS`, `copy TABLE CHECKPOINT TRIGGER_MS TARGET`, `look` and `stop`; the answer to `stop` has the time
of each key in milliseconds, and the steps of the micro-batches with rows.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from tests.bench.spark_contestant import session


class Follower:
    """A query over one table."""

    def __init__(self, spark: Any, side: str, warehouse: str) -> None:
        self._spark, self._side, self._warehouse = spark, side, warehouse
        self._times: dict[int, int] = {}
        self._query: Any = None

    def ready(self) -> dict[str, Any]:
        """Answer when the session has started."""
        return {"ready": True}

    def note(self, table: str, checkpoint: str, trigger_ms: str) -> dict[str, Any]:
        """Start a query that begins with the next snapshot, or the latest one, and notes the time of each row."""
        self._times = {}
        self._query = self._writer(table, checkpoint, trigger_ms).foreachBatch(self._keep).start()
        return {"started": True}

    def copy(self, table: str, checkpoint: str, trigger_ms: str, target: str) -> dict[str, Any]:
        """Start a query that writes the rows to another table, with the sink of this side."""
        self._times = {}
        writer = self._writer(table, checkpoint, trigger_ms).format(self._side)
        self._query = self._placed(writer, "start", target)
        return {"started": True}

    def look(self) -> dict[str, Any]:
        """Return the greatest key in the sink, and the error of a query that has ended."""
        error = self._query.exception()
        return {"last": max(self._times, default=-1), "error": None if error is None else str(error)}

    def stop(self) -> dict[str, Any]:
        """Stop the query, and return what it has noted."""
        batches = [one for one in self._query.recentProgress if one["numInputRows"]]
        self._query.stop()
        return {"times": self._times, "durations": [dict(one["durationMs"]) for one in batches]}

    def _writer(self, table: str, checkpoint: str, trigger_ms: str) -> Any:
        reader = self._spark.readStream.format(self._side).option("scan.mode", "latest")
        rows = self._placed(reader, "load", table)
        writer = rows.writeStream.option("checkpointLocation", checkpoint)
        return writer.trigger(processingTime=f"{trigger_ms} milliseconds")

    def _placed(self, builder: Any, action: str, table: str) -> Any:
        """Load from a table, or start into one, by the names that this side has for it."""
        if self._side == "paimon":
            return getattr(builder, action)(f"{self._warehouse}/db.db/{table}")
        return getattr(builder.option("warehouse", self._warehouse), action)(f"db.{table}")

    def _keep(self, batch: Any, _: int) -> None:
        keys = [row["id"] for row in batch.select("id").collect()]
        now = time.time_ns() // 1_000_000
        for key in keys:
            self._times.setdefault(key, now)


def main(side: str, warehouse: str, jar: str | None = None) -> None:
    spark = session(jar)
    follower = Follower(spark, side, warehouse)
    for line in sys.stdin:
        action, *arguments = line.split()
        print(json.dumps(getattr(follower, action)(*arguments)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
