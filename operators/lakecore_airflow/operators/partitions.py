"""This module has operators that expire partitions, drop them and mark them as done."""

from __future__ import annotations

from lakecore.jobs.definitions.rows import DropPartition, ExpirePartitions, MarkPartitionDone
from lakecore_airflow.tasks.chore import ChoreOperator

__all__ = ["DropPartitionOperator", "ExpirePartitionsOperator", "MarkPartitionDoneOperator"]


class ExpirePartitionsOperator(ChoreOperator):
    """Drop partitions that are too old; the parameters are those of Paimon's `expire_partitions`.

    :param expiration: for example `30 d`; None takes the table's option.
    :param expire_strategy: `values-time` or `update-time`.
    :param zone: the time zone of the clock that the partitions were written by.
    """

    definition = ExpirePartitions
    names_are = "partitions"


class DropPartitionOperator(ChoreOperator):
    """Remove all rows of partitions. A retry does not remove rows that were added after the first try's
    commit.

    :param partitions: `dt=a,hh=b;dt=c`.
    """

    definition = DropPartition
    names_are = "partitions"
    repeatable = True


class MarkPartitionDoneOperator(ChoreOperator):
    """Mark partitions as done: by a file `_SUCCESS` in each, by a report, or by both.

    :param partitions: `dt=a,hh=b;dt=c`, with all partition columns.
    """

    definition = MarkPartitionDone
    names_are = "partitions"
