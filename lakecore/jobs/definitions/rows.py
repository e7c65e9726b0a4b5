"""This module has jobs that move or drop rows or count them: partitions, buckets, statistics."""

from __future__ import annotations

from typing import Annotated, ClassVar

from lakecore.data_class import dataclass
from lakecore.jobs.definitions.parameter import Kind, Parameter
from lakecore.jobs.definitions.table_job import CommittingJob, EndTime

__all__ = ["Analyze", "DropPartition", "ExpirePartitions", "MarkPartitionDone", "Rescale"]


@dataclass(frozen=True, kw_only=True)
class _PartitionJob(CommittingJob):
    """A request about partitions of one table. (`commit_user`, `commit_identifier`) is the identity of the
    first commit; later commits count on from it.
    """

    module: ClassVar[str] = "partitions"


@dataclass(frozen=True, kw_only=True)
class ExpirePartitions(_PartitionJob):
    """Drop partitions that are too old. A value that is None takes the table's option
    (`partition.expiration-time`, …).
    """

    command: ClassVar[str] = "expire-partitions"

    expiration_ms: Annotated[
        int | None,
        Parameter(
            "Drop partitions that are older: '30 d'; by default the value of the table's option.",
            Kind.DURATION,
            flags=("--expiration-time",),
        ),
    ] = None
    timestamp_formatter: Annotated[
        str | None, Parameter("The time of a partition is written so: 'yyyyMMdd'.")
    ] = None
    timestamp_pattern: Annotated[
        str | None, Parameter("Use this pattern of partition columns for the time: '$dt $hour:00:00'.")
    ] = None
    expire_strategy: Annotated[
        str | None,
        Parameter("Take the age from the values (values-time) or from the last change (update-time)."),
    ] = None
    max_expires: Annotated[int | None, Parameter("Drop at most so many.")] = None
    zone: Annotated[
        str,
        Parameter("Partitions were written by the clock of this time zone.", flags=("--time-zone",)),
    ] = "UTC"
    """Partition values and file times were written by the clock of this time zone."""


@dataclass(frozen=True, kw_only=True)
class DropPartition(_PartitionJob):
    """Drop partitions."""

    command: ClassVar[str] = "drop-partition"

    partitions: Annotated[str, Parameter("Take these partitions: 'dt=a,hh=b;dt=c'.", flags=("--partition",))]


@dataclass(frozen=True, kw_only=True)
class MarkPartitionDone(_PartitionJob):
    """Mark partitions as done."""

    command: ClassVar[str] = "mark-partition-done"
    names_run: ClassVar[bool] = False

    partitions: Annotated[str, Parameter("Take these partitions: 'dt=a,hh=b;dt=c'.", flags=("--partition",))]
    """Each has all partition columns."""


@dataclass(frozen=True, kw_only=True)
class Rescale(CommittingJob):
    """Move the rows of partitions to another number of buckets; rows, levels and changelogs stay as they are.

    Writers refuse a partition whose number of buckets is not that of option `bucket`: set the option to the
    same number.
    """

    command: ClassVar[str] = "rescale"
    module: ClassVar[str] = "rescale"
    names_user: ClassVar[bool] = True

    bucket_num: Annotated[
        int | None,
        Parameter("Use so many buckets for each partition; by default the value of the option bucket."),
    ] = None
    where: Annotated[
        str | None,
        Parameter("Take only these partitions: 'dt=a,hh=b;dt=c'.", flags=("--where", "--partitions")),
    ] = None
    """Partitions; None means all that have another number of buckets."""
    until_ms: EndTime = None
    """It is in milliseconds since the epoch; what is proven by then is committed. None means no end."""


@dataclass(frozen=True, kw_only=True)
class Analyze(CommittingJob):
    """Count the rows of the latest snapshot, merged, and compute statistics of `columns`. The columns are
    read once, on the executor.
    """

    command: ClassVar[str] = "analyze"
    module: ClassVar[str] = "analyze"

    columns: Annotated[
        tuple[str, ...],
        Parameter("Compute statistics of these columns: 'a,b', or 'all'; without it only rows are counted."),
    ] = ()
    """These are names, or `all` for every column that can have statistics. If it is empty, only rows are
    counted.
    """
