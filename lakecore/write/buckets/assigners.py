"""This module decides how many assigners the dynamic buckets of a table have, and which rows go to which one.
It is pure.

Rule of the format: none. Every hash of a key must be in one bucket of its partition, whoever assigned it; how
many assigners there are changes only which bucket a new key gets.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.options import Option
from lakecore.write.buckets.bucket_places import BucketShare, PlaceRules

__all__ = ["Assigners"]

ASSIGNER_TASKS: Option[int | None] = Option(
    "dynamic-bucket.assigner-parallelism", int, None, "Tasks of Spark that assign dynamic buckets."
)
INITIAL_BUCKETS: Option[int | None] = Option(
    "dynamic-bucket.initial-buckets", int, None, "Assigners of a partition, each with its own buckets."
)


@dataclass(frozen=True, slots=True)
class Assigners:
    """There are `tasks` that assign buckets, and `shares` of them for one partition."""

    tasks: int
    shares: int

    @classmethod
    def from_options(cls, raw: Mapping[str, str], default_tasks: int) -> Assigners:
        """Read the numbers from options. Without options each partition has one assigner, which fills one
        bucket after the other; every further assigner begins a bucket of its own.

        Raises InvalidOptionError naming the option and its value.
        """
        for option in (ASSIGNER_TASKS, INITIAL_BUCKETS):
            number = option.read(raw)
            if number is not None and number < 1:
                raise InvalidOptionError(f"option {option.key}={number}: must be at least 1")
        tasks = ASSIGNER_TASKS.read(raw)
        shares = INITIAL_BUCKETS.read(raw) or tasks or 1
        tasks = tasks or max(default_tasks, 1)
        most = PlaceRules.from_options(raw).max_buckets
        return cls(tasks, min(shares, tasks, *([most] if most > 0 else [])))

    def task_of(
        self, partition_hashes: npt.NDArray[np.int32] | int, hashes: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int64]:
        """Return the task of each row: the assigners of a partition are neighbours."""
        start = np.abs(np.fmod(np.asarray(partition_hashes, np.int64), self.tasks))
        tasks: npt.NDArray[np.int64] = (start + BucketShare.numbers(hashes, self.shares)) % self.tasks
        return tasks
