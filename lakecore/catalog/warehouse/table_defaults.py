"""This module adds the catalog's `table-default.*` options to the definition of a new table. It is pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakecore.catalog.definition import TableDefinition
from lakecore.errors import InvalidOptionError

__all__ = ["TABLE_DEFAULT_PREFIX", "table_defaults", "with_table_defaults"]

TABLE_DEFAULT_PREFIX = "table-default."
"""Options of a catalog with this prefix are options of new tables (Paimon's `CatalogOptions`)."""


def table_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of new tables among those of a catalog, without the prefix."""
    defaults = {
        key.removeprefix(TABLE_DEFAULT_PREFIX): value
        for key, value in options.items()
        if key.startswith(TABLE_DEFAULT_PREFIX)
    }
    if "" in defaults:
        raise InvalidOptionError(
            f"catalog option {TABLE_DEFAULT_PREFIX}: it names no option of a table; write "
            f"{TABLE_DEFAULT_PREFIX}KEY"
        )
    return defaults


def with_table_defaults(definition: TableDefinition, defaults: Mapping[str, str]) -> TableDefinition:
    """Return the definition with the options that it does not set itself (as Java does)."""
    return replace(definition, options={**defaults, **definition.options})
