"""This module decides which inputs of a unit are copied by row groups, and why the others are decoded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import chain, groupby

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.format.corruption import corrupt_data_errors
from lakecore.format.data_reader import file_format
from lakecore.format.parquet.footer_bounds import footer_bounds
from lakecore.format.parquet.footer_bytes import metadata_of
from lakecore.format.parquet.splice.footer import Footer, read_splice_footer
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.format.parquet.splice.reasons import SpliceReason, SpliceRefusal
from lakecore.format.parquet.splice.rules import (
    SpliceTarget,
    has_large_groups,
    is_large_file,
    mixing_refusal,
    own_refusal,
)
from lakecore.format.shredders import shredder_for
from lakecore.fs.file_io import FileIO
from lakecore.metadata.schema import TableSchema
from lakecore.verify.contents.footer_stats import footer_problems, keyed_problems
from lakecore.verify.digest.columns import StoredFile
from lakecore.write.files.rolling import FileSpec
from lakecore.write.files.spliced import encoded_footer

__all__ = [
    "NOTHING_COPIED",
    "CopyCount",
    "CopyInput",
    "CopyPlan",
    "plan_copies",
    "read_footers",
    "settled_plan",
    "table_refusal",
]


@dataclass(frozen=True, slots=True)
class CopyInput:
    """This file may be copied, unless a rule refuses it. `schema` is that of the file."""

    stored: StoredFile
    schema: TableSchema
    refusal: SpliceReason | None = None
    """It says why the file must be decoded, whatever its footer is; None where its footer decides."""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """It has the footer of each input that is copied; of the others the reason why they are not, in the order
    of the inputs.
    """

    parts: tuple[Footer | SpliceReason, ...]

    @property
    def copies(self) -> bool:
        """Return whether some input is copied."""
        return any(isinstance(part, Footer) for part in self.parts)

    @classmethod
    def refused(cls, count: int, reason: SpliceReason) -> CopyPlan:
        """Return the plan that decodes every input."""
        return cls((reason,) * count)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCount:
    """It counts what was copied, and by their reasons the files that were decoded although copies were asked
    for. Counts can be added and pickled.
    """

    files: int = 0
    rows: int = 0
    bytes: int = 0
    decoded: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: CopyCount) -> CopyCount:
        return CopyCount(
            files=self.files + other.files,
            rows=self.rows + other.rows,
            bytes=self.bytes + other.bytes,
            decoded=dict(Counter(self.decoded) + Counter(other.decoded)),
        )

    @classmethod
    def of(cls, plan: CopyPlan) -> CopyCount:
        """Return the count of a plan that was carried out."""
        footers = [part for part in plan.parts if isinstance(part, Footer)]
        reasons = Counter(part.value for part in plan.parts if isinstance(part, SpliceReason))
        return cls(
            files=len(footers),
            rows=sum(footer.rows for footer in footers),
            bytes=sum(footer.size for footer in footers),
            decoded=dict(reasons),
        )


NOTHING_COPIED = CopyCount()


def table_refusal(spec: FileSpec) -> SpliceReason | None:
    """Return why no file can be copied into new files of a table; None where rules of the file decide."""
    rules = spec.rules
    if rules.format != "parquet":
        return SpliceReason.NOT_PARQUET
    if spec.tracked:
        return SpliceReason.ROW_IDS
    if spec.indexes:
        return SpliceReason.FILE_INDEXES
    if shredder_for(spec.row_type, spec.options, rules.format, rules.compression) is not None:
        return SpliceReason.LAYOUT
    return None


def plan_copies(file_io: FileIO, spec: FileSpec, inputs: Sequence[CopyInput], mode: CopyMode) -> CopyPlan:
    """Read the footers of the inputs, and return what is copied of them, whole. Raises NotFoundError,
    UnavailableError.
    """
    plan = read_footers(file_io, spec, inputs, mode)
    is_copied = [isinstance(part, Footer) for part in plan.parts]
    decoded = sum(1 for copied, _ in groupby(is_copied) if not copied)
    return settled_plan(plan, inputs, spec, mode, decoded)


def read_footers(file_io: FileIO, spec: FileSpec, inputs: Sequence[CopyInput], mode: CopyMode) -> CopyPlan:
    """Read the footers of the inputs, and return those of files whose row groups mix with those of the
    largest of them. Raises NotFoundError, UnavailableError.
    """
    refusal = table_refusal(spec)
    if refusal is not None:
        return CopyPlan.refused(len(inputs), refusal)
    target = _target(spec, mode)
    parts = [_footer(file_io, spec, target, one) for one in inputs]
    footers = [part for part in parts if isinstance(part, Footer)]
    if not footers:
        return CopyPlan(tuple(parts))
    first = max(footers, key=lambda footer: footer.size)
    return CopyPlan(
        tuple((mixing_refusal(part, first) or part) if isinstance(part, Footer) else part for part in parts)
    )


def settled_plan(
    plan: CopyPlan, inputs: Sequence[CopyInput], spec: FileSpec, mode: CopyMode, decoded: int
) -> CopyPlan:
    """Return the plan, or one that decodes everything where what is decoded does not mix with the copies, or
    makes small row groups between them. `decoded` is how many stretches of rows are decoded.
    """
    footers = [part for part in plan.parts if isinstance(part, Footer)]
    if not decoded or not footers:
        return plan
    reason = mixing_refusal(encoded_footer(spec), footers[0])
    count = decoded + sum(len(footer.groups) for footer in footers)
    rows = sum(one.stored.file.row_count for one in inputs)
    size = sum(one.stored.file.file_size for one in inputs)
    target = _target(spec, mode)
    if reason is None and (target.small_groups or has_large_groups(count, rows, size)):
        return plan
    refusal = reason or SpliceReason.MIXED
    return CopyPlan(tuple(refusal if isinstance(part, Footer) else part for part in plan.parts))


def _target(spec: FileSpec, mode: CopyMode) -> SpliceTarget:
    return SpliceTarget(spec.row_type.names, spec.rules.compression, small_groups=mode is CopyMode.ALL)


def _footer(file_io: FileIO, spec: FileSpec, target: SpliceTarget, one: CopyInput) -> Footer | SpliceReason:
    stored = one.stored
    if file_format(stored.path) != "parquet":
        return SpliceReason.NOT_PARQUET
    if one.refusal is not None:
        return one.refusal
    if not is_large_file(stored.file.row_count, stored.file.file_size, small_groups=target.small_groups):
        return SpliceReason.SMALL_GROUPS  # its footer need not be read
    if one.schema.id != spec.schema.id and _columns(one.schema) != _columns(spec.schema):
        return SpliceReason.OTHER_TABLE
    try:
        with file_io.open_ranges(stored.path) as source:
            footer = read_splice_footer(source, stored.path)
            refusal = own_refusal(footer, target)
            if refusal is not None:
                return refusal
            if footer.rows != stored.file.row_count or source.size() != stored.file.file_size:
                return SpliceReason.DAMAGED
            with corrupt_data_errors(stored.path):
                stated = footer_bounds(metadata_of(footer.thrift), footer.has_values)
            problems = footer_problems(stated, stored.file, one.schema)
            more = keyed_problems(stated, stored.file) if spec.keyed else ()
            problem = next(chain(problems, more), None)
    except SpliceRefusal as err:
        return err.reason
    except CorruptDataError:
        return SpliceReason.DAMAGED
    return footer if problem is None else SpliceReason.STATISTICS


def _columns(schema: TableSchema) -> list[tuple[object, ...]]:
    return [(field.id, field.name, field.type) for field in schema.fields]
