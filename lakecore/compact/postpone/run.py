"""Postponed rows into real buckets: through the writers of those, proven, and committed as one compaction.

It runs where the job runs (no units go to an executor). Memory: the write buffer, and the proof's 33 bytes a
row of one partition. A failure removes what was written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from lakecore.compact.naming import place_name
from lakecore.compact.outcome import ProvenPick
from lakecore.compact.postpone.plan import Fold, plan_folds, real_totals
from lakecore.compact.work import Place, UnitTable, WorkPick
from lakecore.errors import ProofError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.entries import ManifestEntries
from lakecore.metadata.options import MergeEngine
from lakecore.metadata.row_kind import KIND_NAME, RowKind
from lakecore.read.file_reader import read_file
from lakecore.verify.columns import StoredFile
from lakecore.verify.postponed import prove_fold
from lakecore.write.bucket_state import BucketState
from lakecore.write.incoming import Rows
from lakecore.write.postpone import POSTPONE_BUCKET, new_buckets
from lakecore.write.table_write import TableWrite, WriteTarget

__all__ = ["Folded", "fold_picks", "fold_postponed"]

logger = logging.getLogger(__name__)

_OPTIONS = {"postpone.batch-write-fixed-bucket": "true", "write-buffer-spillable": "true"}


@dataclass(frozen=True)
class Folded:
    """What was written and proven: messages of one commit, and a pick a partition for the report.

    `directories`: of the new files.
    """

    messages: tuple[CommitMessage, ...]
    picks: tuple[ProvenPick, ...]
    directories: frozenset[str]
    write: TableWrite

    def abort(self) -> None:
        """Remove every new file: it was not committed."""
        self.write.abort()


def fold_picks(table: UnitTable, live: ManifestEntries) -> tuple[WorkPick, ...]:
    """What `fold_postponed` would do."""
    folds = plan_folds(live, partial(new_buckets, table.schema.options))
    return tuple(_pick(table, fold) for fold in folds)


def fold_postponed(table: UnitTable, live: ManifestEntries, file_prefix: str) -> Folded | None:
    """Write the postponed rows of `live` into real buckets and prove it; None when there are none.

    `file_prefix` begins the names of all new data files.

    Raises ProofError when anything differs, NotFoundError when a file is gone, CorruptDataError.
    """
    folds = plan_folds(live, partial(new_buckets, table.schema.options))
    if not folds:
        return None
    state = BucketState.of(live.select(live.bucket >= 0))
    schema = replace(table.schema, options={**table.schema.options, **_OPTIONS})
    reading = table.reading
    target = WriteTarget(reading.file_io, reading.paths, schema, table.clock, file_prefix=f"{file_prefix}-")
    totals = {**real_totals(live), **{fold.partition: fold.total_buckets for fold in folds}}
    write = TableWrite(target, lambda: replace(state, totals=totals))
    try:
        for fold in folds:
            for rows in _postponed_rows(table, fold):
                write.write_rows(rows)
        written = write.finish()
        picks = tuple(_proven(table, fold, written, state) for fold in folds)
    except BaseException:
        write.abort()
        raise
    directories = frozenset(reading.bucket_dir(message.partition, message.bucket) for message in written)
    return Folded((*map(_compacted, written), *map(_emptied, folds)), picks, directories, write)


def _postponed_rows(table: UnitTable, fold: Fold) -> Iterator[Rows]:
    names, ignored = table.schema.row_type.names, _ignored(table)
    directory = table.reading.bucket_dir(fold.partition, POSTPONE_BUCKET)
    for file in fold.files:
        for batch in read_file(table.reading, directory, file, (*names, KIND_NAME)):
            kinds = batch.column(KIND_NAME).to_numpy(zero_copy_only=False)
            taken = ~np.isin(kinds, [int(kind) for kind in ignored])
            part = batch.select(list(names))
            if not taken.all():
                part, kinds = part.filter(pa.array(taken)), kinds[taken]
            yield Rows(part, kinds if kinds.any() else None)


def _proven(table: UnitTable, fold: Fold, written: Sequence[CommitMessage], state: BucketState) -> ProvenPick:
    pick = _pick(table, fold)
    messages = [message for message in written if message.partition == fold.partition]
    outputs = []
    for message in messages:
        if message.total_buckets != fold.total_buckets or not 0 <= message.bucket < fold.total_buckets:
            raise ProofError(pick.name, f"rows went to bucket {message.bucket} of {message.total_buckets}")
        directory = table.reading.bucket_dir(message.partition, message.bucket)
        lowest = state.next_sequence(message.partition, message.bucket)
        for file in message.new_files:
            if file.min_sequence_number < lowest:
                raise ProofError(pick.name, f"{file.file_name} does not come after the rows of its bucket")
            outputs.append(StoredFile(table.reading.paths.data_file(directory, file), file))
    path = partial(table.reading.paths.data_file, pick.bucket_dir)
    proof = prove_fold(
        table.proof,
        pick.name,
        [StoredFile(path(file), file) for file in fold.files],
        outputs,
        replaces=_replaces(table),
        ignored=_ignored(table),
    )
    return ProvenPick(pick, tuple(output.file for output in outputs), proof)


def _replaces(table: UnitTable) -> bool:
    options = table.reading.options
    return options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields


def _ignored(table: UnitTable) -> frozenset[RowKind]:
    """Kinds that writers leave out; the option may be younger than the postponed rows."""
    options = table.reading.options
    updates = {RowKind.UPDATE_BEFORE} if options.ignore_update_before or options.ignore_delete else set()
    return frozenset(updates | ({RowKind.DELETE} if options.ignore_delete else set()))


def _pick(table: UnitTable, fold: Fold) -> WorkPick:
    place = Place(fold.partition, POSTPONE_BUCKET, POSTPONE_BUCKET)
    return WorkPick(
        name=place_name(place, table.schema),
        place=place,
        bucket_dir=table.reading.bucket_dir(fold.partition, POSTPONE_BUCKET),
        reason=f"postponed rows go to {fold.total_buckets} buckets",
        replaced=fold.files,
    )


def _compacted(message: CommitMessage) -> CommitMessage:
    """New files of a real bucket, as part of a compaction."""
    return CommitMessage(
        partition=message.partition,
        bucket=message.bucket,
        total_buckets=message.total_buckets,
        compact_after=message.new_files,
        compact_changelog=message.changelog_files,
    )


def _emptied(fold: Fold) -> CommitMessage:
    return CommitMessage(
        partition=fold.partition,
        bucket=POSTPONE_BUCKET,
        total_buckets=POSTPONE_BUCKET,
        compact_before=fold.files,
    )
