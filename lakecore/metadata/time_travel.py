"""A schema of the past, as a read of its snapshot sees it: its columns with today's options. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakecore.metadata.options import ROWKIND_FIELD, SEQUENCE_FIELD
from lakecore.metadata.schema import TableSchema
from lakecore.options import parse_list

__all__ = ["schema_as_of"]

_PLACES = ("partition.legacy-name", "partition.default-name", "data-file.path-directory")
"""Options that say where files written at that time are."""
_OF_COLUMNS = "fields."
_OF_ALL_COLUMNS = "default-aggregate-function"
_GROUP = ".sequence-group"


def schema_as_of(past: TableSchema, today: TableSchema, overrides: Mapping[str, str]) -> TableSchema:
    """Return `past` with the options of `today` (rule of the format), which include the `overrides` of the
    handle.

    Options that say where files are stay those of `past`, and so do all options if today's name columns
    that it lacks.
    """
    if not _named_columns(today.options) <= set(past.row_type.names):
        return replace(past, options={**past.options, **overrides})
    own = {key: past.options[key] for key in _PLACES if key in past.options}
    others = {key: value for key, value in today.options.items() if key not in _PLACES}
    return replace(past, options={**others, **own, **overrides})


def _named_columns(raw: Mapping[str, str]) -> set[str]:
    """Return the columns that decide how rows are merged."""
    names = {*SEQUENCE_FIELD.read(raw), *filter(None, [ROWKIND_FIELD.read(raw)])}
    for key, value in raw.items():
        if key.startswith(_OF_COLUMNS):
            names.update(parse_list(key.split(".")[1]))
            names.update(parse_list(value) if key.endswith(_GROUP) else ())
    return names - {_OF_ALL_COLUMNS}
