"""This module reads and writes the locations of records of a metastore. It is pure.

They are attributes of the records, or with `location-in-properties` properties, so that the metastore itself
never touches the storage. A property wins where both are set, with either setting of Java's.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "LOCATION_PROPERTY",
    "database_location",
    "set_database_location",
    "set_location",
    "table_location",
    "with_scheme_of",
]

LOCATION_PROPERTY = "paimon_location"

_SAME_STORE = {"s3": ("s3a", "s3n"), "abfs": ("abfss",)}
"""Other schemes with which the same text names the same object."""


def table_location(record: Any, in_properties: bool) -> str | None:
    """Return the location of a table or partition, as it is written there."""
    stored = (record.parameters or {}).get(LOCATION_PROPERTY) if in_properties else None
    return stored or (record.sd.location if record.sd is not None else None) or None


def set_location(record: Any, location: str, in_properties: bool) -> None:
    """Set the location of a table or partition."""
    if in_properties:
        record.parameters = {**(record.parameters or {}), LOCATION_PROPERTY: location}
    else:
        record.sd.location = location


def database_location(record: Any, in_properties: bool) -> str | None:
    """Return the location of a database, as it is written there."""
    stored = (record.parameters or {}).get(LOCATION_PROPERTY) if in_properties else None
    return stored or record.locationUri or None


def set_database_location(record: Any, location: str, in_properties: bool) -> None:
    """Set the location of a database."""
    if in_properties:
        record.parameters = {**(record.parameters or {}), LOCATION_PROPERTY: location}
        record.locationUri = None
    else:
        record.locationUri = location


def with_scheme_of(path: str, sample: str | None) -> str:
    """Return a plain path with the scheme that the metastore has for others: `file:`, `s3a:`, `abfss:`."""
    scheme = sample.partition(":")[0] if sample and ":" in sample else ""
    own, mark, rest = path.partition(":")
    if mark and scheme in _SAME_STORE.get(own, ()):
        return f"{scheme}:{rest}"
    return f"file:{path}" if scheme == "file" and path.startswith("/") else path
