"""The rules of a table that a proof applies, read from the raw options of its schema. No IO.

What decides which row of a key counts is parsed here a second time, apart from the typed options that
planning, merging and writing go by: one misread option would otherwise be wrong on both sides of the
comparison. Keys, defaults and spellings are those of Paimon's `CoreOptions` (1.4 and 2.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, ProofError
from lakecore.metadata.row_kind import RowKind

__all__ = ["KIND_NUMBERS", "TableRules", "check_agreement", "expire_column", "may_write_orc"]

KIND_NUMBERS: Final[Mapping[str, int]] = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
"""These are the row kinds as files store them."""

_IGNORE_DELETE = (
    "ignore-delete", "first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete",
)  # fmt: skip
_FORMATS = ("file.format", "file.format.per.level", "changelog-file.format")
_ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
_PRODUCERS = ("none", "input", "lookup", "full-compaction")
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_SPANS: Final[Sequence[tuple[int, tuple[str, ...]]]] = (
    (_DAY, ("d", "day", "days")),
    (_HOUR, ("h", "hour", "hours")),
    (_MINUTE, ("m", "min", "minute", "minutes")),
    (_SECOND, ("s", "sec", "secs", "second", "seconds")),
    (1, ("", "ms", "milli", "millis", "millisecond", "milliseconds")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """It says how rows of a key are ordered, which of them count, and what a compaction makes besides new
    files.

    `clustering_columns`: columns that order the rows of files above level 0, where the table overrides that
    of keys. `keeps_order`: files of a bucket hold rows in the order of their sequence numbers. `expire_ms`:
    how long rows live; None: for ever.
    """

    engine: str
    producer: str
    sequence: tuple[str, ...]
    descending: bool
    snapshot_ordering: bool
    clustering_columns: tuple[str, ...]
    kind_field: str | None
    ignore_delete: bool
    ignore_update_before: bool
    deletion_vectors: bool
    force_lookup: bool
    row_deduplicate: bool
    row_deduplicate_ignored: tuple[str, ...]
    data_evolution: bool
    row_tracking: bool
    keeps_order: bool
    expire_ms: int | None

    @classmethod
    def of(cls, raw: Mapping[str, str], *, keyed: bool) -> TableRules:
        """Read the rules of a table; `keyed` tells that it has a primary key. Raises InvalidOptionError
        naming the option and its value.
        """
        order = _one_of(raw, "sequence.field.sort-order", ("ascending", "descending"))
        clustered = keyed and _truth(raw, "pk-clustering-override")
        span = raw.get("record-level.expire-time")
        return cls(
            engine=_one_of(raw, "merge-engine", _ENGINES),
            producer=_one_of(raw, "changelog-producer", _PRODUCERS),
            sequence=_names(raw, "sequence.field"),
            descending=order == "descending",
            snapshot_ordering=keyed and _truth(raw, "sequence.snapshot-ordering"),
            clustering_columns=_names(raw, "clustering.columns", "sink.clustering.by-columns")
            if clustered
            else (),
            kind_field=raw.get("rowkind.field"),
            ignore_delete=_truth(raw, *_IGNORE_DELETE),
            ignore_update_before=_truth(raw, "ignore-update-before"),
            deletion_vectors=_truth(raw, "deletion-vectors.enabled"),
            force_lookup=_truth(raw, "force-lookup"),
            row_deduplicate=_truth(raw, "changelog-producer.row-deduplicate"),
            row_deduplicate_ignored=_names(raw, "changelog-producer.row-deduplicate-ignore-fields"),
            data_evolution=_truth(raw, "data-evolution.enabled"),
            row_tracking=_truth(raw, "row-tracking.enabled"),
            keeps_order=not keyed and _buckets(raw) > 0,
            expire_ms=None if span is None else _milliseconds("record-level.expire-time", span),
        )

    @property
    def needs_lookup(self) -> bool:
        """Return whether a merge searches other levels for the rows that it replaces. A full-compaction
        producer does not.
        """
        if self.producer == "full-compaction":
            return False
        return (
            self.producer == "lookup"
            or self.deletion_vectors
            or self.engine == "first-row"
            or self.force_lookup
        )

    @property
    def needs_old_rows(self) -> bool:
        """Return whether rows of other levels matter to a merge of level 0: for changes, for marks, or for
        its result.
        """
        alone = self.engine == "deduplicate" and not self.sequence and not self.ignore_delete
        return self.needs_lookup and (self.producer == "lookup" or self.marks or not alone)

    @property
    def marks(self) -> bool:
        """Return whether a row that is replaced in a file that stays is marked as deleted there."""
        return self.deletion_vectors and self.engine != "first-row"


_TYPED: Final[Mapping[str, tuple[str, str]]] = {
    "engine": ("merge_engine", "merge-engine"),
    "producer": ("changelog_producer", "changelog-producer"),
    "sequence": ("sequence_fields", "sequence.field"),
    "snapshot_ordering": ("snapshot_ordering", "sequence.snapshot-ordering"),
    "clustering_columns": ("clustering_columns", "clustering.columns"),
    "kind_field": ("rowkind_field", "rowkind.field"),
    "ignore_delete": ("ignore_delete", "ignore-delete"),
    "ignore_update_before": ("ignore_update_before", "ignore-update-before"),
    "deletion_vectors": ("deletion_vectors", "deletion-vectors.enabled"),
    "force_lookup": ("force_lookup", "force-lookup"),
    "row_deduplicate": ("row_deduplicate", "changelog-producer.row-deduplicate"),
    "row_deduplicate_ignored": (
        "row_deduplicate_ignored", "changelog-producer.row-deduplicate-ignore-fields",
    ),
    "data_evolution": ("data_evolution", "data-evolution.enabled"),
    "row_tracking": ("row_tracking", "row-tracking.enabled"),
    "expire_ms": ("record_expire_ms", "record-level.expire-time"),
}  # fmt: skip


def expire_column(raw: Mapping[str, str]) -> str | None:
    """Return the column with the time from which rows expire, if the table names one."""
    return raw.get("record-level.time-field")


def may_write_orc(raw: Mapping[str, str]) -> bool:
    """Return whether new files of some level may be ORC, by the options of formats."""
    return any("orc" in raw.get(key, "").lower() for key in _FORMATS)


def check_agreement(rules: TableRules, options: Any) -> None:
    """Check that the rules agree with the typed `options` that the run uses (`TableOptions`).

    Raises ProofError naming the first option that is taken for something else than the schema says; also
    where row kinds are not those that files store.
    """
    values = {name: _plain(getattr(options, typed)) for name, (typed, _) in _TYPED.items()}
    values["descending"] = _plain(options.sequence_order) == "descending"
    keys = {name: key for name, (_, key) in _TYPED.items()} | {"descending": "sequence.field.sort-order"}
    for name, value in values.items():
        own_value = getattr(rules, name)
        if value != own_value:
            raise ProofError(
                f"option {keys[name]}", f"the schema says {own_value!r}, but the run uses {value!r}"
            )
    kinds = {kind.symbol: int(kind) for kind in RowKind}
    if kinds != KIND_NUMBERS:
        raise ProofError("row kinds", f"files store {KIND_NUMBERS}, but the run uses {kinds}")


def _plain(value: Any) -> Any:
    """Return the text of an enumeration's member; other values are unchanged."""
    return getattr(value, "value", value)


def _one_of(raw: Mapping[str, str], key: str, values: Sequence[str]) -> str:
    """Return the value of an option, which must be one of `values`; the first is the default."""
    text = raw.get(key, values[0])
    word = text.strip().lower()
    if word not in values:
        raise InvalidOptionError(f"option {key}={text!r}: must be one of {', '.join(values)}")
    return word


def _truth(raw: Mapping[str, str], *keys: str) -> bool:
    """Return the value of the first of `keys` that is set, or False if none is."""
    for key in keys:
        if key in raw:
            text = raw[key].strip().lower()
            if text not in ("true", "false"):
                raise InvalidOptionError(f"option {key}={raw[key]!r}: must be true or false")
            return text == "true"
    return False


def _buckets(raw: Mapping[str, str]) -> int:
    """Return the number of buckets; below 1: rows have no fixed bucket."""
    text = raw.get("bucket", "-1").strip()
    try:
        return int(text)
    except ValueError:
        raise InvalidOptionError(f"option bucket={text!r}: must be a number") from None


def _names(raw: Mapping[str, str], *keys: str) -> tuple[str, ...]:
    text = next((raw[key] for key in keys if key in raw), "")
    return tuple(name for part in text.split(",") if (name := part.strip()))


def _milliseconds(key: str, text: str) -> int:
    """Parse `1 h`, `500` (milliseconds) or ISO-8601 (`PT1H`) as milliseconds."""
    parts = re.fullmatch(r"(\d+)\s*([a-z]*)", text.strip().lower())
    if parts is not None:
        for factor, units in _SPANS:
            if parts[2] in units:
                return int(parts[1]) * factor
    iso = re.fullmatch(r"p(?:(\d+)d)?(?:t(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?)?", text.strip().lower())
    if iso is None or not any(iso.groups()):
        raise InvalidOptionError(f"option {key}={text!r}: this is not a duration; write for example '1 h'")
    days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
    return int(days * _DAY + hours * _HOUR + minutes * _MINUTE + seconds * _SECOND)
