"""This module commits partitions with a new number of buckets in OVERWRITE snapshots, as they were proven."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial

from lakecore.commit.request import Preconditions
from lakecore.compact.engine.commit_loop import CommitDraft
from lakecore.compact.kinds.rescale.claims import commit_faults
from lakecore.compact.kinds.rescale.plan import RescalePick
from lakecore.data_class import dataclass
from lakecore.errors import CommitConflictError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, IndexFile
from lakecore.metadata.snapshot import RESCALED
from lakecore.verify.proof.pick_proof import PickProof, proof_properties

__all__ = ["RescaleCommits", "RescaledPartition"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RescaledPartition:
    """The units of this partition all ran, and its proof holds."""

    name: str
    pick: RescalePick
    files: tuple[tuple[int, tuple[DataFile, ...]], ...]
    """These are the new files by bucket."""
    proof: PickProof


class RescaleCommits:
    """This class commits partitions (`lakecore.compact.engine.commit_loop.Commits`).

    `index_files`: all of the snapshot that was planned from. `count`: the new number of buckets.
    """

    overwrites = True
    preconditions = Preconditions(one_bucket_count=True)

    def __init__(self, index_files: Sequence[IndexFile], count: int) -> None:
        self._index_files = tuple(index_files)
        self._count = count

    def draft(self, items: Sequence[RescaledPartition]) -> CommitDraft:
        """Return one try; nothing is written for it."""
        messages = tuple(message for moved in items for message in _messages(moved, self._index_files))
        proven = [(moved.name, moved.pick, moved.files, moved.proof) for moved in items]
        return CommitDraft(
            messages=messages,
            properties=proof_properties(moved.proof for moved in items) | {RESCALED: str(self._count)},
            faults=partial(commit_faults, proven, messages, self._index_files),
        )

    def affected(
        self, items: Sequence[RescaledPartition], err: CommitConflictError
    ) -> list[RescaledPartition]:
        """Return the partitions that the conflict names."""
        partitions = {partition for partition, _, _ in err.files}
        lost_items = [moved for moved in items if moved.pick.partition in partitions]
        if lost_items:
            logger.warning("%s; %d partitions are planned again", err, len(lost_items))
        return lost_items


def _messages(moved: RescaledPartition, index_files: Sequence[IndexFile]) -> Iterator[CommitMessage]:
    """Yield what is removed, by old bucket, with the deletion vectors of its files, and what is added, by new
    bucket.
    """
    pick = moved.pick
    for bucket, files in pick.files.items():
        yield CommitMessage(
            partition=pick.partition,
            bucket=bucket,
            total_buckets=pick.old_total,
            deleted_files=files,
            deleted_index_files=tuple(
                file
                for file in index_files
                if (file.partition, file.bucket, file.index_type)
                == (pick.partition, bucket, DELETION_VECTORS)
            ),
        )
    for bucket, files in moved.files:
        yield CommitMessage(
            partition=pick.partition, bucket=bucket, total_buckets=pick.new_total, new_files=files
        )
