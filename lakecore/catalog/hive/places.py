"""This module decides which locations of a metastore lakecore uses."""

from __future__ import annotations

from lakecore.errors import CorruptDataError, InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.fs.allowed_paths import AllowedPaths, is_below
from lakecore.fs.resolve import plain_path

__all__ = ["checked_place", "place_of"]


def checked_place(location: str, what: str, allowed: AllowedPaths) -> str:
    """Return the plain path of a location. `allowed` are the paths of the catalog.

    Raises InvalidOptionError for one outside of the warehouse and `external-roots`, CorruptDataError for one
    in lakecore's own directory, UnsupportedError for another storage.
    """
    path, warehouse = plain_path(location), allowed.warehouse
    if ("://" in path) != ("://" in warehouse):
        raise UnsupportedError(
            f"{what} lies at {path}, in another storage than the warehouse {warehouse}; open a "
            "catalog with a warehouse there"
        )
    roots = (warehouse, *(allowed.declared or ()))
    if not any(path == root or is_below(path, root) for root in roots):
        raise InvalidOptionError(
            f"{what} lies at {path}, outside of the warehouse {warehouse}; if that is right, add "
            "its directory to the catalog option external-roots"
        )
    if path == allowed.service or is_below(path, allowed.service):
        raise CorruptDataError(path, f"is the location of {what} in the metastore, but lakecore's own")
    return path


def place_of(location: str) -> str:
    """Return the plain path of a location, or as it is one in storage that lakecore does not have."""
    try:
        return plain_path(location)
    except (InvalidInputError, UnsupportedError):
        return location
