"""A local Flink with Paimon's connector, and streaming jobs whose results are known (tests/oracle/flink)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.oracle import Oracle

__all__ = ["JOBS", "Flink", "Job", "flink"]

KEYS = 1000
STEP = 7919
"""Row `s` of a source has the key `s * STEP % KEYS`: each key comes back after KEYS rows."""
Row = tuple[str, ...]


@dataclass(frozen=True)
class Flink:
    """`oracle` runs in the JVM of Flink, and knows the commands of the oracle too."""

    oracle: Oracle
    warehouse: Path

    def sql(self, statement: str) -> list[Row]:
        """Run a statement in batch mode; its rows without their kinds, sorted."""
        rows = self.oracle.call("sql", statement) or []
        return sorted(tuple(row[1:]) for row in rows)

    def start(self, statements: str, checkpoints: Path | None = None) -> int:
        """Start a streaming job, from the newest of its checkpoints if there are any; the statements before the last
        one, each on its own line, prepare it.
        """
        settings = []
        if checkpoints is not None:
            settings = [
                f"execution.checkpointing.dir={checkpoints.as_uri()}",
                "execution.checkpointing.externalized-checkpoint-retention=RETAIN_ON_CANCELLATION",
            ]
            done = sorted(checkpoints.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
            settings += [f"execution.state-recovery.path={done[-1].parent.as_uri()}"] if done else []
        return int(self.oracle.call("start", statements, *settings))

    def state(self, job: int) -> str:
        return str(self.oracle.call("state", job))

    def restart(self) -> None:
        """Kill the JVM, and with it its jobs, with SIGKILL, and start another one."""
        self.oracle.kill()
        self.oracle.call("warehouse", self.warehouse)


JVM = "-Xmx3g -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A session of Flink compiles more than a test runs: the first compiler alone takes a third less CPU."""


@contextmanager
def flink(warehouse: Path, version: str = "1.4.2") -> Iterator[Flink]:
    """End the JVM, and with it its jobs, with the block."""
    with Oracle(version, {"ORACLE_FLINK": "1", "ORACLE_JVM": JVM}) as oracle:
        oracle.call("warehouse", warehouse)
        yield Flink(oracle, warehouse)


@dataclass(frozen=True)
class Job:
    """A kind of table, the query that fills it from a source of numbered rows, and the rows that it ends with.

    `follow`: whether Flink can read it as a stream without a changelog producer of its own.
    """

    name: str
    options: str
    columns: str
    query: str
    rows: Callable[[int], list[Row]]
    follow: bool = True

    @property
    def table(self) -> str:
        return f"default.{self.name}"

    def create(self, flink: Flink) -> None:
        flink.sql(
            f"CREATE TABLE `{self.name}` ({self.columns}) WITH ({self.options}, 'consumer.expiration-time' = '1 h')"
        )
        if self.follow:
            keyed = "PRIMARY KEY" in self.columns
            options = "'bucket' = '1', 'changelog-producer' = 'input'" if keyed else "'bucket' = '-1'"
            flink.sql(f"CREATE TABLE `{self.name}_copy` ({self.columns}) WITH ({options})")

    def start(
        self, flink: Flink, count: int, rate: int, checkpoints: Path | None = None
    ) -> tuple[int, int | None]:
        """Start the job that writes `count` rows, `rate` a second, and the job that copies the table as it changes;
        or go on with them from the newest of their `checkpoints`.
        """
        return self.start_writer(flink, count, rate, checkpoints), self.start_copier(flink, checkpoints)

    def start_writer(self, flink: Flink, count: int, rate: int, checkpoints: Path | None = None) -> int:
        source = (
            "CREATE TEMPORARY TABLE numbers (s BIGINT) WITH ('connector' = 'datagen', 'fields.s.kind' = 'sequence', "
            f"'fields.s.start' = '1', 'fields.s.end' = '{count}', 'rows-per-second' = '{rate}');\n"
        )
        own = checkpoints and self.writer_checkpoints(checkpoints)
        return flink.start(f"{source}INSERT INTO `{self.name}` {self.query}", own)

    def start_copier(self, flink: Flink, checkpoints: Path | None = None) -> int | None:
        if not self.follow:
            return None
        hint = "/*+ OPTIONS('scan.mode' = 'latest-full', 'consumer-id' = 'copier', 'continuous.discovery-interval' = '200 ms') */"
        copy = f"INSERT INTO `{self.name}_copy` SELECT * FROM `{self.name}` {hint}"
        return flink.start(copy, checkpoints and checkpoints / self.name / "copier")

    def writer_checkpoints(self, checkpoints: Path) -> Path:
        """The directory of the checkpoints of the writer. Flink removes them when the job has finished."""
        return checkpoints / self.name / "writer"

    def wait_for_copy(self, flink: Flink, count: int, *, seconds: float = 60) -> list[Row]:
        """Return the copy's rows as soon as they are those of the table, or what they are after `seconds`."""
        deadline = time.monotonic() + seconds
        wanted = self.rows(count)
        rows = flink.sql(f"SELECT * FROM `{self.name}_copy`")
        while rows != wanted and time.monotonic() < deadline:
            time.sleep(1)
            rows = flink.sql(f"SELECT * FROM `{self.name}_copy`")
        return rows


KEYED = "k BIGINT, s BIGINT, v STRING, PRIMARY KEY (k) NOT ENFORCED"
PLAIN = "k BIGINT, s BIGINT, v STRING"
COUNTED = "k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED"
KEY = f"MOD(s * {STEP}, {KEYS})"
ROWS = f"SELECT {KEY} AS k, s, CONCAT('v', CAST(s AS STRING)) FROM numbers"
COUNTS = f"SELECT {KEY} AS k, CAST(1 AS BIGINT), s FROM numbers"
CHANGES = (
    "SELECT k, s, CONCAT('v', CAST(s AS STRING)) FROM "
    f"(SELECT {KEY} AS k, MAX(s) AS s FROM numbers GROUP BY {KEY}) WHERE MOD(s, 5) <> 0"
)
"""It retracts: a key whose newest row has a number that five divides is deleted until it comes back."""
COUNTERS = "'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum', 'fields.s.aggregate-function' = 'max'"


def _newest(count: int) -> dict[int, int]:
    return {s * STEP % KEYS: s for s in range(1, count + 1)}


def _texts(pairs: dict[int, int]) -> list[Row]:
    return sorted((str(k), str(s), f"v{s}") for k, s in pairs.items())


def _changed(count: int) -> list[Row]:
    return _texts({k: s for k, s in _newest(count).items() if s % 5})


def _upserted(count: int) -> list[Row]:
    return _texts(_newest(count))


def _appended(count: int) -> list[Row]:
    return sorted((str(s * STEP % KEYS), str(s), f"v{s}") for s in range(1, count + 1))


def _counted(count: int) -> list[Row]:
    numbers: dict[int, int] = {}
    for s in range(1, count + 1):
        numbers[s * STEP % KEYS] = numbers.get(s * STEP % KEYS, 0) + 1
    newest = _newest(count)
    return sorted((str(k), str(n), str(newest[k])) for k, n in numbers.items())


JOBS = (
    Job("compacting", "'bucket' = '2'", KEYED, CHANGES, _changed),
    Job("write_only", "'bucket' = '2', 'write-only' = 'true'", KEYED, CHANGES, _changed),
    Job("sequence", "'bucket' = '2', 'sequence.field' = 's'", KEYED, ROWS, _upserted),
    Job("lookup", "'bucket' = '2', 'changelog-producer' = 'lookup'", KEYED, CHANGES, _changed),
    Job(
        "full_compaction",
        "'bucket' = '1', 'changelog-producer' = 'full-compaction', 'full-compaction.delta-commits' = '3'",
        KEYED,
        CHANGES,
        _changed,
    ),
    Job("input", "'bucket' = '2', 'changelog-producer' = 'input'", KEYED, CHANGES, _changed),
    Job("vectors", "'bucket' = '2', 'deletion-vectors.enabled' = 'true'", KEYED, CHANGES, _changed),
    Job(
        "vectors_lookup",
        "'bucket' = '1', 'deletion-vectors.enabled' = 'true', 'changelog-producer' = 'lookup'",
        KEYED,
        CHANGES,
        _changed,
    ),
    Job("dynamic", "'bucket' = '-1', 'dynamic-bucket.target-row-num' = '300'", KEYED, CHANGES, _changed),
    Job("aggregation", f"'bucket' = '2', {COUNTERS}", COUNTED, COUNTS, _counted, follow=False),
    Job(
        "aggregation_write_only",
        f"'bucket' = '2', 'write-only' = 'true', {COUNTERS}",
        COUNTED,
        COUNTS,
        _counted,
        follow=False,
    ),
    Job(
        "partial_update",
        "'bucket' = '1', 'merge-engine' = 'partial-update', 'fields.s.sequence-group' = 'v'",
        KEYED,
        ROWS,
        _upserted,
        follow=False,
    ),
    Job("append", "'bucket' = '-1'", PLAIN, ROWS, _appended),
    Job("append_buckets", "'bucket' = '2', 'bucket-key' = 'k'", PLAIN, ROWS, _appended),
    Job("postponed", "'bucket' = '-2', 'sequence.field' = 's'", KEYED, ROWS, _upserted, follow=False),
)
"""These are the kinds of tables that streaming jobs of Flink write in production."""
