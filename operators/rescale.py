"""Another number of buckets for a table's partitions, as an Airflow task."""

from __future__ import annotations

from typing import ClassVar

from operators.engine_chore import EngineChoreOperator

__all__ = ["RescaleOperator"]


class RescaleOperator(EngineChoreOperator):
    """Move the rows of partitions to another number of buckets; partitions that have it are left alone.

    Writers refuse a partition whose number is not that of option `bucket`; stop them, and set the option to
    the same number. A partition that others write to meanwhile is planned again.

    :param bucket_num: how many buckets; None: as option `bucket` says.
    :param where: partitions as in Paimon, `dt=a,hh=b;dt=c`; None: all with another number.
    """

    doing = "moving rows to other buckets"
    module = "rescale"
    parameters: ClassVar = {
        "bucket_num": "int",
        "where": "text",
        "options": "options",
    }
    repeatable = True
