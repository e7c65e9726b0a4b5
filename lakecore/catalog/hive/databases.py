"""This module finds, creates and changes the databases of a metastore, and reads their properties."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakecore.catalog.catalog import Database
from lakecore.catalog.hive.connection import thrift_types
from lakecore.catalog.hive.locations import database_location, set_database_location
from lakecore.catalog.hive.metastore import HiveMetastore
from lakecore.catalog.hive.names import check_hive_name
from lakecore.catalog.hive.places import checked_place
from lakecore.catalog.hive.views.view_entries import is_view
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, InvalidInputError, UnavailableError
from lakecore.fs.allowed_paths import AllowedPaths
from lakecore.fs.file_io import FileIO

__all__ = ["LOCATION", "DatabaseRecords", "changed_database", "new_database", "properties_of_database"]

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


_DEFAULT_DATABASE = "default"


@dataclass(frozen=True)
class DatabaseRecords:
    """These are the databases of one metastore. Each look at one is a call."""

    metastore: HiveMetastore
    in_properties: bool
    allowed: AllowedPaths

    def find(self, name: str) -> Database | None:
        """Return a database, None if it does not exist."""
        record = self.metastore.database(name)
        return None if record is None else Database(name, properties_of_database(record))

    def location(self, name: str) -> str | None:
        """Return the location as the metastore has it; None without one, and without a database."""
        record = self.metastore.database(name)
        return None if record is None else database_location(record, self.in_properties)

    def create(self, name: str, properties: Mapping[str, str], default: str, storage: FileIO) -> bool:
        """Create a database at its property `location`, else at `default`. It returns False when there is
        one. Raises InvalidInputError, and the errors of `checked_place`.
        """
        check_hive_name(name, "database")
        if self.metastore.database(name) is not None:
            return False
        record = new_database(name, properties)
        location = properties.get(LOCATION) or default
        path = checked_place(location, f"database {name!r}", self.allowed)
        set_database_location(record, location, self.in_properties)
        if self.in_properties:
            storage.make_directory(path)
        try:
            self.metastore.create_database(record)
        except AlreadyExistsError:
            return False  # somebody else was faster
        except UnavailableError:
            # A metastore removes the directory of a creation that failed, and thereby disturbs a faster one.
            if self.metastore.database(name) is None:
                raise
            return False
        return True

    def change(self, name: str, old: Any, changed: Mapping[str, str], removed: Sequence[str]) -> None:
        """Set and remove properties of a database, whose record is `old`."""
        self.metastore.alter_database(name, changed_database(old, changed, removed))

    def check_drop(self, name: str, may_drop: Callable[[Any], bool], *, cascade: bool) -> None:
        """Raise InvalidInputError for the database that each metastore has, for one that has tables that
        lakecore does not drop, and unless `cascade` for one that has views.
        """
        if name == _DEFAULT_DATABASE:
            raise InvalidInputError(f"database {name!r} cannot be dropped: each Hive metastore has it")
        entries = [one for one in self.metastore.tables(name) if not may_drop(one)]
        views = [one.tableName for one in entries if is_view(one)]
        others = [one.tableName for one in entries if not is_view(one)]
        if others:
            raise InvalidInputError(
                f"database {name!r} holds {len(others)} materialized views and tables that are not Paimon's, "
                f"such as {others[0]!r}, which lakecore does not drop; drop them with Hive"
            )
        if views and not cascade:
            raise InvalidInputError(
                f"database {name!r} holds {len(views)} views, such as {views[0]!r}; drop them first, or "
                "drop it with cascade, after which views cannot be restored"
            )
