"""One unit that assigns buckets to postponed rows: a part of a partition goes through the writers, proven.

Rows are replayed in their order and merged in the write buffer, as a write would. Memory: that buffer (it
spills), and the proof's 33 bytes a row of 4 million. A failure removes what was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakecore.compact.engine.work import UnitTable
from lakecore.compact.kinds.postpone.plan import PostponedFiles
from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.options import POSTPONE_BUCKET
from lakecore.metadata.row_kind import KIND_NAME, RowKind
from lakecore.read.file.file_reader import read_file
from lakecore.row.bucket import assign_buckets
from lakecore.store.table_stores import TableStores
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.proof.postponed import (
    AssignedFiles,
    AssignedShare,
    PostponedRules,
    PostponedTally,
    check_assignment,
)
from lakecore.verify.proof.rescaled import BucketRule
from lakecore.verify.rules.merge_rules import read_merge_rules
from lakecore.verify.rules.table_rules import TableRules
from lakecore.write.buckets.bucket_state import BucketState
from lakecore.write.buckets.placement import WriteTarget
from lakecore.write.rows.incoming import Rows
from lakecore.write.table_write import TableWrite

__all__ = ["AssignmentResult", "AssignmentUnit", "postponed_rules", "run_unit"]

_OPTIONS = {"postpone.batch-write-fixed-bucket": "true", "write-buffer-spillable": "true"}


@dataclass(frozen=True, kw_only=True)
class AssignmentUnit:
    """This unit writes the rows of `postponed` whose buckets leave `remainder` when divided by `steps`.

    `state` is that of its real buckets. `file_prefix` begins the names of new data files.
    """

    name: str
    table: UnitTable
    postponed: PostponedFiles
    state: BucketState
    steps: int
    remainder: int
    file_prefix: str

    @property
    def rows(self) -> int:
        """Return the approximate number of rows."""
        return self.postponed.rows // self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentResult:
    """These are the files that a unit wrote, by bucket, and what its part of the proof counted."""

    messages: tuple[CommitMessage, ...]
    tally: PostponedTally


def run_unit(unit: AssignmentUnit) -> AssignmentResult:
    """Run the unit. Raises ProofError when anything differs, NotFoundError when a file is gone,
    CorruptDataError.
    """
    table = unit.table
    schema = replace(table.schema, options={**table.schema.options, **_OPTIONS})
    reading = table.reading
    target = WriteTarget(
        TableStores(schema, reading.file_io, reading.paths, table.clock),
        file_prefix=f"{unit.file_prefix}-",
        moves=True,
        one_flush=True,
    )
    write = TableWrite(target, lambda: unit.state)
    try:
        for rows in _postponed_rows(unit):
            write.write_rows(rows)
        written = write.finish()
        return AssignmentResult(messages=written, tally=_proven(unit, written))
    except BaseException:
        write.abort()
        raise


def postponed_rules(table: UnitTable) -> PostponedRules:
    """Return the rules that the proof reads from the schema."""
    rules = TableRules.of(table.schema.options, keyed=True)
    return PostponedRules(rules, read_merge_rules(table.schema, table.reading.options))


def _postponed_rows(unit: AssignmentUnit) -> Iterator[Rows]:
    """Yield the rows of the unit, without kinds that the table does not accept."""
    table, rule = unit.table, _rule(unit)
    names, ignored = table.schema.row_type.names, [int(kind) for kind in _ignored_kinds(table)]
    directory = table.reading.bucket_dir(unit.postponed.partition, POSTPONE_BUCKET)
    for file in unit.postponed.files:
        for batch in read_file(table.reading, directory, file, (*names, KIND_NAME)):
            kinds = batch.column(KIND_NAME).to_numpy(zero_copy_only=False)
            part = batch.select(list(names))
            chosen = ~np.isin(kinds, ignored)
            if unit.steps > 1:
                buckets = assign_buckets(part, rule.key, rule.total, rule.function)
                chosen &= buckets % unit.steps == unit.remainder
            if not chosen.all():
                part, kinds = part.filter(pa.array(chosen)), kinds[chosen]
            yield Rows(part, kinds if kinds.any() else None)


def _proven(unit: AssignmentUnit, written: Sequence[CommitMessage]) -> PostponedTally:
    table, postponed, outputs, changelog_files = unit.table, unit.postponed, [], []
    reading = table.reading
    for message in written:
        place = (message.partition, message.total_buckets)
        if (
            place != (postponed.partition, postponed.total_buckets)
            or not 0 <= message.bucket < postponed.total_buckets
        ):
            raise ProofError(
                unit.name,
                f"rows were assigned to bucket {message.bucket} of {message.total_buckets}, which does not "
                "belong to the unit",
            )
        directory = reading.bucket_dir(message.partition, message.bucket)
        lowest = unit.state.next_sequence(message.partition, message.bucket)
        for file in message.new_files:
            if file.min_sequence_number < lowest:
                raise ProofError(
                    unit.name,
                    f"{file.file_name} has sequence numbers that do not follow the rows of its bucket",
                )
            outputs.append((StoredFile(reading.paths.data_file(directory, file), file), message.bucket))
        changelog_files += [
            (StoredFile(reading.paths.data_file(directory, file), file), message.bucket)
            for file in message.changelog_files
        ]
    waiting = reading.bucket_dir(postponed.partition, POSTPONE_BUCKET)
    files = AssignedFiles(
        postponed=[StoredFile(reading.paths.data_file(waiting, file), file) for file in postponed.files],
        written=outputs,
        changelog=changelog_files,
        firsts={
            bucket: unit.state.next_sequence(postponed.partition, bucket)
            for bucket in range(postponed.total_buckets)
        },
    )
    share = AssignedShare(_rule(unit), unit.steps, unit.remainder)
    return check_assignment(table.proof, unit.name, files, share, postponed_rules(table))


def _rule(unit: AssignmentUnit) -> BucketRule:
    schema, options = unit.table.schema, unit.table.reading.options
    key = schema.row_type.select(schema.bucket_keys)
    return BucketRule(key, options.bucket_function.value, unit.postponed.total_buckets)


def _ignored_kinds(table: UnitTable) -> frozenset[RowKind]:
    """Return the kinds that writers leave out; the option may be younger than the postponed rows."""
    options = table.reading.options
    updates = {RowKind.UPDATE_BEFORE} if options.ignore_update_before or options.ignore_delete else set()
    return frozenset(updates | ({RowKind.DELETE} if options.ignore_delete else set()))
