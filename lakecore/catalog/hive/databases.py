"""This module turns properties of a database into the record of a metastore, and back. It calls nothing."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.catalog.hive.connection import thrift_types
from lakecore.errors import InvalidInputError

__all__ = ["LOCATION", "changed_database", "new_database", "properties_of_database"]

LOCATION = "location"
_ATTRIBUTES = {"comment": "description", "owner": "ownerName"}
"""These properties are attributes of the record, as in Java."""
_LONGEST_KEY, _LONGEST_VALUE = 180, 4000


def properties_of_database(record: Any) -> dict[str, str]:
    """Return the properties that Java shows."""
    properties = dict(record.parameters or {})
    for key, attribute in (*_ATTRIBUTES.items(), (LOCATION, "locationUri")):
        if getattr(record, attribute) is not None:
            properties[key] = getattr(record, attribute)
    return properties


def new_database(name: str, properties: Mapping[str, str]) -> Any:
    """Return the record of a new database; its location is set apart. Raises InvalidInputError."""
    record = thrift_types().Database(name=name, parameters={})
    _set(record, {key: value for key, value in properties.items() if key != LOCATION})
    return record


def changed_database(old: Any, changed: Mapping[str, str], removed: Sequence[str]) -> Any:
    """Return a copy of the record with other properties. Raises InvalidInputError for the location: tables
    would stay where they are.
    """
    if LOCATION in (*changed, *removed):
        raise InvalidInputError(
            f"property {LOCATION}: the location of a database does not change; create another database"
        )
    record = copy.deepcopy(old)
    record.parameters = {key: value for key, value in (old.parameters or {}).items() if key not in removed}
    for key in removed:
        if key in _ATTRIBUTES:
            setattr(record, _ATTRIBUTES[key], "")
    _set(record, changed)
    return record


def _set(record: Any, properties: Mapping[str, str]) -> None:
    for key, value in properties.items():
        if not key or len(key) > _LONGEST_KEY or len(value) > _LONGEST_VALUE:
            raise InvalidInputError(
                f"property {key[:40]!r}: a key has 1 to {_LONGEST_KEY} characters, a value at most "
                f"{_LONGEST_VALUE}"
            )
        if key in _ATTRIBUTES:
            setattr(record, _ATTRIBUTES[key], value)
        else:
            record.parameters[key] = value
