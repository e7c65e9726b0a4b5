"""This module has what catalogs of one warehouse have in common, as Java's `AbstractCatalog` has it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from lakecore.catalog.names import TableName, check_data_table
from lakecore.catalog.privileges.grants import Privilege
from lakecore.catalog.warehouse.alteration import alter_schema
from lakecore.catalog.warehouse.new_tables import NewTables
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, CorruptDataError, LakeError, UnsupportedError
from lakecore.fs.confined import confine
from lakecore.maintain.dropped.move import has_files
from lakecore.maintain.dropped.record import DroppedTable, DropState
from lakecore.maintain.interrupted_renames import Rename
from lakecore.metadata.schema import TableSchema
from lakecore.metadata.schema_change import SchemaChange
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore
from lakecore.system.catalog_tables import CATALOG_DATABASE
from lakecore.table import Table

__all__ = ["WarehouseCatalog"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class WarehouseCatalog(NewTables):
    """This is a catalog whose tables lie below one warehouse, at `<warehouse>/<database>.db/<table>`.

    A kind of catalog decides where the names of databases and tables are, and how changes exclude each other.
    """

    def _strike_table(self, name: TableName) -> None:
        """Remove a table that was dropped from the list of names."""

    def _renamed_path(self, name: TableName, new: TableName) -> str:
        """Return where the files of a table are after it was renamed."""
        return self._table_path(new)

    def _rename_entry(self, name: TableName, new: TableName, path: str) -> None:
        """Change the name of a table in the list of names, before its directory moves to `path`."""

    @contextmanager
    def _altering(self, name: TableName) -> Iterator[Callable[[TableSchema, TableSchema], None]]:
        """Change the schema within the block, which calls what it is given with the old and the new schema
        before it publishes that.
        """
        yield lambda old, new: None
        self._after_alteration(name)

    def _after_alteration(self, name: TableName) -> None:
        """Do what follows a change of the schema."""

    @contextmanager
    def _renaming(self, name: TableName, new: TableName) -> Iterator[None]:
        """Hold the locks of both names, in the order in which Java takes them."""
        first, second = sorted((name, new), key=lambda one: (one.database, one.table))
        with self._lock_of(first), self._lock_of(second):
            yield

    def alter_table(
        self, name: str, changes: Sequence[SchemaChange] | SchemaChange | Sequence[Mapping[str, Any]]
    ) -> Table:
        """Publish the next schema, with all changes or none; existing rows are read under it at once.

        `db.t$branch_b` changes the branch alone. `changes` are values of `metadata.schema_change`, or their
        JSON. When others change the schema at the same time, the changes are applied again on top of theirs.
        Raises NotFoundError, InvalidInputError naming what cannot change, CommitConflictError when others won
        every retry.
        """
        parsed = TableName.parse(name)
        self._check(Privilege.ALTER_TABLE, parsed.database, parsed.table)
        if parsed.system is not None or parsed.database == CATALOG_DATABASE:
            raise UnsupportedError(f"table {name!r} is a system table: it can only be read")
        table = self._load(parsed)
        with self._lock_of(replace(parsed, branch="main")):
            if parsed.branch != "main":
                alter_schema(table, changes, self.clock)
                return self.load_table(name)
            with self._altering(parsed) as before_publication:
                alter_schema(table, changes, self.clock, before_publication)
        return self.load_table(name)

    def rename_table(self, name: str, new_name: str, *, if_exists: bool = False) -> None:
        """Give a table another name, in its database or another one, in one step. Stop its writers first.

        Runs in the ledger and the quarantine stay under the old name. Raises NotFoundError unless
        `if_exists`, AlreadyExistsError, OnHoldError, BusyError when a chore works on the table, and
        UnsupportedError on storage that cannot rename a directory in one step: then nothing has changed.
        """
        old, new = check_data_table(name, "renamed"), check_data_table(new_name, "the name of a table")
        self._check(Privilege.ALTER_TABLE, old.database, old.table)
        if not self._has_table(old):
            if if_exists:
                return
            raise self._no_table(old)
        if self._has_table(new):
            raise AlreadyExistsError(
                f"table {name!r} cannot be renamed: {new_name!r} exists in {self.warehouse}"
            )
        if self._find_database(new.database) is None:
            raise self._no_database(new.database)
        source, target = self._table_path(old), self._renamed_path(old, new)
        rename = Rename(name, new_name, source) if self._is_entered(old) else None
        with self._removal.exclusive(name, "rename-table"), self._renaming(old, new):
            self._removal.check_not_half_dropped(new_name, target)
            self._check_name_free(new)
            self._check_has_files(old, source)
            self._check_no_files(name, source, target)
            if rename is not None:
                self._renames.begin(rename)
            self._rename_entry(old, new, target)
            try:
                moved = source == target or self._move_renamed(new, source, target)
            except BaseException:
                self._take_back(old, new, source, rename)
                raise
            if not moved:
                self._take_back(old, new, source, rename)
                raise UnsupportedError(
                    f"table {name!r} cannot be renamed: the storage of {self.warehouse} cannot rename a "
                    "directory in one step; create the other table and copy the rows"
                )
            if self.privileges is not None:
                self.privileges.object_renamed(name, new_name)
            if rename is not None:
                self._renames.end(rename)
        logger.info("renamed table %s of %s to %s", name, self.warehouse, new_name)

    def _move_renamed(self, name: TableName, source: str, target: str) -> bool:
        """Move the directory of a table that has its new name; False where storage cannot in one step."""
        return self._storage.move_directory(source, target)

    def _has_files(self, name: TableName, path: str) -> bool:
        """Return whether the files of the table that the catalog has under this name are at `path`."""
        return bool(SchemaStore(self.file_io, TablePaths(path)).list_ids())

    def _check_has_files(self, name: TableName, path: str) -> None:
        """Raise NotFoundError for a table that the catalog has, but whose files are not at `path`."""
        if not self._has_files(name, path):
            raise self._no_table(name)

    def _check_no_files(self, name: str, source: str, target: str) -> None:
        """Raise AlreadyExistsError for files at the place to which a table moves, if it moves."""
        if source != target and has_files(self._storage, target):
            raise AlreadyExistsError(
                f"table {name!r} cannot be renamed: {target} has files of no table; move them away"
            )

    def _files_without_entry(self, name: TableName, place: str) -> AlreadyExistsError:
        """Return the error for a new table whose directory has files that are not entered in `place`."""
        return AlreadyExistsError(
            f"table {str(name)!r}: {self._table_path(name)} has files of a table that is not entered in "
            f"{place}; enter it with `lakecore repair {name}`, or move the files away, unless "
            "another process creates the table now"
        )

    def _take_back(self, old: TableName, new: TableName, source: str, rename: Rename | None) -> None:
        """Give a table its name again, after its directory could not be moved. Where it is not certain that
        the files are still at `source`, the record stays, and a repair completes the rename.
        """
        with suppress(LakeError):
            if rename is not None and self._has_files(new, source):
                self._rename_entry(new, old, source)
                self._renames.end(rename)

    def _after_interrupted_rename(self, name: TableName) -> TableName:
        """Complete the rename from or to this name that was interrupted, if there is one, and return the name
        that the table has then.

        Raises BusyError while the process that renames may still work, CorruptDataError for a record that
        names another directory than the catalog.
        """
        rename = self._renames.of_name(str(name))
        if rename is None:
            return name
        old, new = TableName.parse(rename.table), TableName.parse(rename.new)
        with self._removal.exclusive(rename.table, "rename-table"), self._renaming(old, new):
            renamed = self._is_entered(new) and not self._is_entered(old)
            if renamed:
                self._complete_rename(rename, old, new)
            self._renames.end(rename)
        return new if renamed else name

    def _complete_rename(self, rename: Rename, old: TableName, new: TableName) -> None:
        source, target = self._table_path(old), self._table_path(new)
        if not self._has_files(new, target) and self._has_files(new, source):
            if source != rename.path:
                raise CorruptDataError(
                    rename.path,
                    f"is the directory of table {rename.table} in the record of its rename, but the catalog "
                    f"would have it at {source}; move the directory to {target}",
                )
            if not self._storage.move_directory(source, target):
                raise UnsupportedError(f"{source} cannot be moved to {target} in one step; move it yourself")
        if self.privileges is not None:
            self.privileges.object_renamed(rename.table, rename.new)
        logger.info("completed the rename of table %s to %s", rename.table, rename.new)

    def drop_table(self, name: str, *, if_exists: bool = False, purge: bool = False) -> DroppedTable | None:
        """Drop a table. Its files are kept, and `restore_table` takes them back; with `purge` they are
        deleted. A drop that was interrupted is completed by a repetition. It returns None when there was
        nothing to drop.

        Raises NotFoundError unless `if_exists`; OnHoldError for a table on hold, BusyError when a chore works
        on it; UnsupportedError for tables with files outside of their directory.
        """
        parsed = TableName.parse(name)
        if parsed.branch != "main":
            raise UnsupportedError(f"{name!r} is a branch: delete it with `lakecore delete-branch`")
        self._check(Privilege.DROP_TABLE, parsed.database, parsed.table)
        return self._drop_table(name, if_exists=if_exists, purge=purge)

    def _drop_table(self, name: str, *, if_exists: bool, purge: bool) -> DroppedTable | None:
        parsed = check_data_table(name, "dropped")
        path = self._table_path(parsed)
        if not self._has_table(parsed) and self._removal.dropped.interrupted(name) is None:
            if if_exists:
                return None
            raise self._no_table(parsed)
        storage = confine(self.file_io, self.allowed_paths.of_table(path, {}))
        with self._removal.exclusive(name, "drop-table"), self._lock_of(parsed):
            self._removal.check_files_inside(name, storage, path)
            entry = self._entry_to_keep(parsed, path)
            strike = partial(self._strike_table, parsed)
            record = self._removal.dropped.drop(name, path, storage, strike, entry)
        if self.privileges is not None:
            self.privileges.object_dropped(name)
        if purge and record is not None:
            self._removal.dropped.delete(record)
        logger.info("dropped table %s at %s", name, path)
        return record

    def _entry_to_keep(self, name: TableName, path: str) -> str:
        """Return what the catalog has of a table that is dropped beside its files, for a restore. It raises
        for a table whose directory cannot be moved away.
        """
        return ""

    def _enter_again(self, name: TableName, record: DroppedTable) -> None:
        """Enter a table that was restored into the list of names."""
        self._enter_table(name)

    def dropped_tables(self, table: str | None = None) -> tuple[DroppedTable, ...]:
        """List the tables that were dropped and are kept, oldest first; of one name, or all."""
        return self._removal.dropped.list(table)

    def restore_table(self, name: str, drop_id: str | None = None) -> Table:
        """Restore a dropped table: the last one of that name, or the one of that id of `dropped_tables`.

        Raises NotFoundError, AlreadyExistsError when a table of that name exists.
        """
        parsed = check_data_table(name, "restored")
        self._check(Privilege.CREATE_TABLE, parsed.database)
        record = self._removal.dropped.find(name, drop_id)
        if record.state is not DropState.RESTORING and self._has_table(parsed):
            raise AlreadyExistsError(
                f"table {name!r} exists in {self.warehouse}; rename or drop it before the restore"
            )
        self._check_database(parsed)
        path = self._table_path(parsed)
        storage = confine(self.file_io, self.allowed_paths.of_table(path, {}))
        with self._removal.exclusive(name, "restore-table"), self._lock_of(parsed):
            self._removal.dropped.restore(record, path, storage, partial(self._enter_again, parsed, record))
        logger.info("restored table %s at %s", name, path)
        return self.load_table(name)
