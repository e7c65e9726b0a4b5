"""Options of a single run: this module decides which may differ from those of the table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakecore.errors import InvalidInputError
from lakecore.metadata.option_rules.checks import check_run_option
from lakecore.metadata.options import BUCKET, clustering_columns_of
from lakecore.metadata.schema import TableSchema

__all__ = ["with_run_options"]

_FIXED_OPTIONS = frozenset({
    "bucket-key", "bucket-function.type", "merge-engine", "sequence.field", "sequence.field.sort-order",
    "rowkind.field", "primary-key", "partition", "partition.default-name", "partition.legacy-name",
    "data-file.path-directory", "auto-create", "path",
})  # fmt: skip


def with_run_options(schema: TableSchema, options: Mapping[str, str]) -> TableSchema:
    """Return the schema with the options of a run. Raises InvalidInputError for options that describe how
    stored rows are laid out, InvalidOptionError for options of Paimon without effect here.
    """
    for key, value in options.items():
        if schema.options.get(key) != value:
            check_run_option(key, value)
        if key in _FIXED_OPTIONS and schema.options.get(key) != value:
            raise InvalidInputError(
                f"option {key}={value!r} is part of the table and cannot be changed for one run; leave it out"
            )
    if "bucket" in options and not _only_counts(BUCKET.read(schema.options), BUCKET.read(options)):
        raise InvalidInputError(
            f"option bucket={options['bucket']!r}: a run may change the number of buckets, but not the "
            "bucket mode; leave it out"
        )
    changed = replace(schema, options={**schema.options, **options})
    if clustering_columns_of(changed) != clustering_columns_of(schema):
        raise InvalidInputError(
            "option clustering.columns says how the files of the table are sorted and cannot be changed "
            "for one run; leave it out"
        )
    return changed


def _only_counts(old: int, new: int) -> bool:
    """Return whether both are fixed numbers, or the same."""
    return old == new or (old > 0 and new > 0)
