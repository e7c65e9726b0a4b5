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
    """Return a plain path with the scheme that the metastore has for others: `file:`, `s3a:`, `s3n:`."""
    scheme = sample.partition(":")[0] if sample and ":" in sample else ""
    if scheme in ("s3a", "s3n") and path.startswith("s3://"):
        return f"{scheme}:{path.removeprefix('s3:')}"
    return f"file:{path}" if scheme == "file" and path.startswith("/") else path
