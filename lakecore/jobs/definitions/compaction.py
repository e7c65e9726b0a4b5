"""This module has jobs that rewrite data files: compaction of one table or of many, and file indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Annotated, ClassVar

from lakecore.compact.engine.strategy import Strategy
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs.definitions.parameter import Kind, Parameter
from lakecore.jobs.definitions.table_job import (
    Definition,
    EndTime,
    LeaseTime,
    TableOptions,
    TablePatterns,
    WaitTime,
)
from lakecore.jobs.runner.limits import Limits
from lakecore.row.order_strategy import OrderStrategy
from lakecore.verify.mode import ProofMode

__all__ = ["Compact", "CompactDatabase", "RewriteFileIndex"]


@dataclass(frozen=True, kw_only=True)
class _RewritingJob(Definition):
    """A job whose units write files. (`commit_user`, `commit_identifier`) names the run, so that a repeated
    one is recognised; its commits take the identifiers from there on (up to 1000). An empty user means a
    fresh one.
    """

    names_user: ClassVar[bool] = True

    options: TableOptions = field(default_factory=dict)
    """These are the table options for this run only."""
    dry_run: Annotated[bool, Parameter("Plan and report; change nothing.")] = False
    until_ms: EndTime = None
    """In milliseconds since the epoch; what is proven by then is committed, the rest reported. None: no
    end.
    """
    commit_user: str = ""
    commit_identifier: int = 1
    lease_ms: LeaseTime = 0
    """Hold the table's lease while there is work; this is how long it outlives this process if it is
    killed. 0 takes no lease.
    """
    wait_ms: WaitTime = 0


@dataclass(frozen=True, kw_only=True)
class _CompactionJob(_RewritingJob):
    """A request to compact, which has the parameters that one table and many share."""

    strategy: Annotated[
        Strategy, Parameter("`universal` merges what needs it, `full` everything into the highest level.")
    ] = Strategy.UNIVERSAL
    partition_idle_ms: Annotated[
        int | None,
        Parameter(
            "Take only partitions that got no new file for so long: '1 d'.",
            Kind.DURATION,
            "partition_idle_time",
        ),
    ] = None
    zone: Annotated[
        str,
        Parameter(
            "The machine that wrote the files has this time zone, which --partition-idle-time needs.",
            name="time_zone",
        ),
    ] = "UTC"
    proof: Annotated[
        ProofMode,
        Parameter(
            "`keys` compares keys, sequence numbers and kinds of all rows, `sampled` also every column of "
            "one row in 16, `full` every column of all rows."
        ),
    ] = ProofMode.SAMPLED
    copy: Annotated[
        CopyMode,
        Parameter(
            "Copy row groups of parquet files without decoding them: of append tables, and of merges where "
            "keys are in one file only. Choose `large` ones, `all` or `none`."
        ),
    ] = CopyMode.LARGE


@dataclass(frozen=True, kw_only=True)
class Compact(_CompactionJob):
    """This is a request to compact one table."""

    command: ClassVar[str] = "compact"
    module: ClassVar[str] = "compact"

    table: str
    order_strategy: Annotated[
        OrderStrategy,
        Parameter("Put the rows of an append table without buckets in order; this rewrites all files."),
    ] = OrderStrategy.NONE
    """All files of the table are rewritten, whatever `strategy` and `proof` say, and all columns are
    compared.
    """
    order_by: Annotated[tuple[str, ...], Parameter("Order rows by these columns: 'a,b'.")] = ()
    """If it is empty, the columns are those of option `clustering.columns`."""
    force: Annotated[bool, Parameter("Order partitions again that are in this order already.")] = False
    where: Annotated[str | None, Parameter("Take only these partitions: 'dt=a,hh=b;dt=c'.")] = None
    buckets: Annotated[str | None, Parameter("Take only these buckets: '0-99,200'.")] = None
    proof_seed: Annotated[
        str, Parameter("Choose the rows of a sampled proof by this seed; reports and refusals name theirs.")
    ] = ""
    """If it is empty, a fresh seed is chosen."""
    owner: str = ""
    """The owner of the lease, who takes it over at once; empty means the name of the run."""


@dataclass(frozen=True, kw_only=True)
class CompactDatabase(_CompactionJob, TablePatterns):
    """This is a request to compact many tables. The fields that both have are those of `Compact`."""

    command: ClassVar[str] = "compact-database"
    module: ClassVar[str] = "compact_database"

    options: Annotated[
        Mapping[str, str],
        Parameter("Set an option of the table for this run: key=value.", flags=("--options", "--option")),
    ] = field(default_factory=dict)
    until_ms: Annotated[
        int | None,
        Parameter("Stop then (HH:MM or ISO date and time, UTC); later tables are skipped.", Kind.END),
    ] = None
    """It is in milliseconds since the epoch; no table is started after it, and running ones end as in
    `Compact`.
    """
    lease_ms: LeaseTime = 60_000
    """This is the length of the lease. 0 takes no leases."""
    wait_ms: WaitTime = 0
    """If a table's lease is not free after this time, the table is a failure."""
    max_concurrent_tables: Annotated[
        int, Parameter("How many tables are processed concurrently.", on_command=False)
    ] = Limits().tables
    """See `Limits.tables`."""
    max_plan_bytes: Annotated[
        int,
        Parameter(
            "Reserve so much memory for the plans of these tables, in this process.",
            Kind.SIZE,
            "max_plan_bytes",
            on_command=False,
        ),
    ] = Limits().plan_bytes
    """See `Limits.plan_bytes`."""
    skip_unsupported: Annotated[bool, Parameter("Tables this release cannot compact are no error.")] = False
    """If it is True, they count as skipped, not as failed."""

    @property
    def limits(self) -> Limits:
        """Return the limits. Raises InvalidInputError for limits that allow no work."""
        if self.max_concurrent_tables < 1:
            raise InvalidInputError(f"max-concurrent-tables={self.max_concurrent_tables}: use 1 or more")
        return Limits(tables=self.max_concurrent_tables, plan_bytes=self.max_plan_bytes)

    def of_table(self, name: str) -> Compact:
        """Return the job of one table."""
        shared = {one.name for one in fields(self)} & {one.name for one in fields(Compact)}
        return Compact(table=name, **{key: getattr(self, key) for key in shared})


@dataclass(frozen=True, kw_only=True)
class RewriteFileIndex(_RewritingJob):
    """This is a request to build the file indexes of one table."""

    command: ClassVar[str] = "rewrite-file-index"
    module: ClassVar[str] = "rewrite_file_index"

    table: str
    where: Annotated[str | None, Parameter("Take only these partitions: 'dt=a,hh=b;dt=c'.")] = None
    dry_run: Annotated[bool, Parameter("Show the coverage; change nothing.")] = False
    owner: str = ""
    """This is the owner of the lease, who takes it over at once."""
