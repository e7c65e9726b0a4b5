"""Proof that postponed rows got into real buckets: what was written is what their rows make, nothing else.

It shares nothing with the writer: the order of files is found anew, rows are read from bytes and numbered,
and the last of each key is found by hashes of its key (128 bits). Where rows of a key do not simply replace
each other, all keys are compared, and of a sample of keys every column is merged anew (`postponed_sample`).
Every row that was written is in the bucket of its key. The changelog, where the table asks for one, has all
rows. Memory: 33 bytes a row of 4 million postponed rows (some 60 while they are sorted), and the rows of a
sample; where there are more, both sides are read again for each further 4 million.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.metadata.manifest.data_file import DataFile
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.verify.digest.bytes_hash import Words
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.digest.digest import ZERO, Tally
from lakecore.verify.digest.shape import ProofMode, RowShape
from lakecore.verify.proof.pick_proof import PickProof, PostponedCheck
from lakecore.verify.proof.postponed_rows import Part, PostponedReader, ignored_kinds
from lakecore.verify.proof.rescaled import BucketRule
from lakecore.verify.rules.merge_rules import MergeRules
from lakecore.verify.rules.table_rules import TableRules
from lakecore.verify.sample.choice import LEAST_SHARE, RowSample, join_samples
from lakecore.verify.sample.postponed_sample import KeyChoice, SampledRows, check_postponed

__all__ = [
    "AssignedFiles",
    "AssignedShare",
    "PostponedRules",
    "PostponedTally",
    "check_assignment",
    "check_numbers",
    "prove_assignment",
]

_MOST_ROWS = 4_000_000


@dataclass(frozen=True, slots=True)
class AssignedShare:
    """These are the postponed rows whose buckets leave one remainder when divided by `steps`; by default
    all rows.
    """

    rule: BucketRule
    steps: int = 1
    remainder: int = 0


@dataclass(frozen=True, slots=True)
class PostponedTally:
    """These are the tallies of a share: all postponed rows, those that the table accepts, and what was
    written for them. They can be added.

    `read`: the postponed files. `new_files`, `changelog_files`: the new files and the changelog files, each
    with its bucket. `sample`: rows of which every column was merged anew; None where whole rows are in the
    tallies.
    """

    everything: Tally = ZERO
    accepted: Tally = ZERO
    written: Tally = ZERO
    read: tuple[DataFile, ...] = ()
    new_files: tuple[tuple[int, DataFile], ...] = ()
    changelog_files: tuple[tuple[int, DataFile], ...] = ()
    sample: RowSample | None = None

    def __add__(self, other: PostponedTally) -> PostponedTally:
        samples = [sample for sample in (self.sample, other.sample) if sample is not None]
        return PostponedTally(
            self.everything + other.everything,
            self.accepted + other.accepted,
            self.written + other.written,
            tuple(dict.fromkeys(self.read + other.read)),
            self.new_files + other.new_files,
            self.changelog_files + other.changelog_files,
            join_samples(samples) if samples else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedFiles:
    """These are the files of a share. `postponed` are in any order; `written` and `changelog` are new
    files with their buckets. `firsts` has the sequence number of the first new row of each bucket; it is 0
    for a bucket that is not in it.
    """

    postponed: Sequence[StoredFile]
    written: Sequence[tuple[StoredFile, int]]
    changelog: Sequence[tuple[StoredFile, int]] = ()
    firsts: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PostponedRules:
    """The rules for what postponed rows become. `merge` has those for rows of one key."""

    table: TableRules
    merge: MergeRules

    @property
    def replaces(self) -> bool:
        """Return whether only the last row of a key counts."""
        return self.table.engine == "deduplicate" and not self.table.sequence

    @property
    def writes_changelog(self) -> bool:
        """Return whether all rows are in the changelog too."""
        return self.table.producer == "input"


def check_assignment(
    context: ProofContext, name: str, files: AssignedFiles, share: AssignedShare, rules: PostponedRules
) -> PostponedTally:
    """Compare what was written with what a share of the postponed rows makes.

    Raises ProofError naming `name`. Cost: reads the covered columns of both sides, once for each 4 million
    rows of the share, and one row of 16 once more where rows of a key are merged.
    """
    rows = sum(stored.file.row_count for stored in files.postponed)
    passes = max(1, -(-rows // (share.steps * _MOST_ROWS)))
    tally = PostponedTally()
    for number in range(passes):
        part = Part(share.rule, share.steps, share.remainder, passes, number)
        reader = PostponedReader(context, name, part, rules.table, files.firsts)
        tally += _AssignmentPass(reader, files, rules).check()
    return replace(
        tally,
        read=tuple(stored.file for stored in files.postponed),
        new_files=tuple((bucket, stored.file) for stored, bucket in files.written),
        changelog_files=tuple((bucket, stored.file) for stored, bucket in files.changelog),
    )


def check_numbers(
    name: str, live: ManifestEntries, partition: bytes, new_files: Iterable[tuple[int, DataFile]]
) -> None:
    """Check that rows that get a bucket are newer than all rows that it has: their sequence numbers must be
    higher.

    `live`: the files of the table. `new_files`: the new files of the partition, each with its bucket. Raises
    ProofError. Cost: some passes over columns of `live`.
    """
    codes = [code for code, value in enumerate(live.partitions) if value == partition]
    own = np.isin(live.partition, codes)
    buckets, highest = live.bucket[own], live.max_sequence[own]
    for bucket, file in new_files:
        numbers_of_bucket = highest[buckets == bucket]
        if len(numbers_of_bucket) and file.min_sequence_number <= numbers_of_bucket.max():
            raise ProofError(
                name,
                f"{file.file_name} has sequence numbers from {file.min_sequence_number} on, but bucket "
                f"{bucket} has rows with numbers up to {numbers_of_bucket.max()}",
            )


def prove_assignment(
    shape: RowShape, name: str, rows: int, shares: Iterable[PostponedTally], *, replaces: bool
) -> PickProof:
    """Prove all shares of the postponed files of a partition, which have so many `rows`. Raises
    ProofError.
    """
    whole = sum(shares, PostponedTally())
    if whole.everything.rows != rows:
        raise ProofError(name, f"its units read {whole.everything.rows} rows, but its inputs have {rows}")
    return PickProof(
        pick=name,
        mode=shape.mode,
        inputs=whole.everything,
        outputs=whole.written,
        lost=whole.accepted - whole.written,
        dropped=whole.everything - whole.accepted,
        keyed=True,
        postponed=PostponedCheck.ROWS if replaces else PostponedCheck.KEYS,
        covered=tuple(field.name for field in shape.values) if replaces else (),
        uncompared=shape.uncompared,
        read=whole.read,
        new_files=tuple(file for _, file in whole.new_files),
        sample=whole.sample,
        seed=shape.seed,
    )


@dataclass(slots=True)
class _AssignmentPass:
    """One reading of both sides, and what is compared of it."""

    reader: PostponedReader
    files: AssignedFiles
    rules: PostponedRules

    def check(self) -> PostponedTally:
        """Check the share and return its tallies. Raises ProofError if what was written is not what the rows
        make.
        """
        reader, rules, name = self.reader, self.rules, self.reader.name
        samples = self._samples(KeyChoice.first(reader.context.shape.seed, name))
        everything = reader.postponed(self.files.postponed, samples and samples[0])
        before = everything.without(ignored_kinds(rules.table))
        after = reader.written(self.files.written, samples and samples[1])
        last = before.last()
        if len(after.last()) != len(after):
            raise ProofError(name, f"{len(after)} rows were written for {len(after.last())} keys")
        due, actual = (last.tally, after.tally) if rules.replaces else (last.key_tally, after.key_tally)
        if due != actual:
            raise ProofError(
                name,
                f"the last rows of the keys of its postponed rows are {due}, but its outputs hold {actual}",
            )
        self._check_changes(before.tally if rules.writes_changelog else ZERO)
        if rules.replaces:
            return PostponedTally(everything.tally, before.tally, after.tally)
        tallies = PostponedTally(everything.key_tally, before.key_tally, after.key_tally)
        return replace(tallies, sample=samples and self._compare(before.keys, samples))

    def _samples(self, choice: KeyChoice) -> tuple[SampledRows, SampledRows] | None:
        """Return collectors for rows of both sides, if the mode compares values that are merged."""
        shape = self.reader.context.shape
        if self.rules.replaces or shape.mode is not ProofMode.FULL:
            return None
        return SampledRows(shape, choice), SampledRows(shape, choice)

    def _compare(self, keys: Words, samples: tuple[SampledRows, SampledRows]) -> RowSample:
        """Compare the sample. Both sides are read once more if the keys that were chosen first have too few
        rows.
        """
        postponed, written = samples
        if postponed.count * LEAST_SHARE < len(keys):
            more = self._samples(KeyChoice.of(postponed.shape.seed, self.reader.name, keys))
            postponed, written = more or samples
            self.reader.postponed(self.files.postponed, postponed)
            self.reader.written(self.files.written, written)
        return check_postponed(self.reader.name, self.rules.merge, postponed, written)

    def _check_changes(self, due: Tally) -> None:
        """Check that the changelog has the rows that were postponed, each in the bucket of its key."""
        tally = self.reader.written(self.files.changelog).tally
        if tally != due:
            raise ProofError(self.reader.name, f"its changelog must hold {due}, but it holds {tally}")
