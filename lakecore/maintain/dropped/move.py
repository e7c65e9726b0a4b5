"""This module moves the directory of a whole table, and deletes one."""

from __future__ import annotations

from lakecore.errors import AlreadyExistsError, NotFoundError
from lakecore.fs.file_io import FileIO, FileStatus
from lakecore.fs.walk import files_below
from lakecore.maintain.target import in_threads
from lakecore.store.paths import TablePaths
from lakecore.store.schemas import SchemaStore

__all__ = ["delete_table_files", "has_files", "move_away", "move_back"]


def move_away(storage: FileIO, source: str, target: str) -> None:
    """Move the table at `source`: in one step where storage can, else its schemas first, oldest to newest.

    It can be repeated after a failure. Cost: one operation, or two listings a directory and a move a file.
    """
    if _in_one_step(storage, source, target):
        return
    schemas = _schemas(storage, source)
    for path in schemas:
        _move_file(storage, path, target + path[len(source) :])
    rest = [path for path in files_below(storage, source) if path not in set(schemas)]
    list(in_threads(lambda path: _move_file(storage, path, target + path[len(source) :]), rest))
    _remove_directories(storage, source)


def move_back(storage: FileIO, source: str, target: str) -> None:
    """Move the table from `source` back to `target`: in one step where storage can, else its schemas last,
    so that no engine finds the table before it is complete. It can be repeated after a failure.
    """
    if _in_one_step(storage, source, target):
        return
    schemas = _schemas(storage, source)
    rest = [path for path in files_below(storage, source) if path not in set(schemas)]
    list(in_threads(lambda path: _move_file(storage, path, target + path[len(source) :]), rest))
    for path in reversed(schemas):
        _move_file(storage, path, target + path[len(source) :])
    _remove_directories(storage, source)


def delete_table_files(storage: FileIO, directory: str) -> None:
    """Delete a directory with all that is below; of a link the link alone. It can be repeated."""
    list(in_threads(storage.delete, list(files_below(storage, directory))))
    _remove_directories(storage, directory)


def has_files(storage: FileIO, directory: str) -> bool:
    """Return whether files are below `directory`. Directories without files, which a writer leaves where a
    table was renamed or dropped beneath it, are removed.
    """
    if next(iter(files_below(storage, directory)), None) is not None:
        return True
    _remove_directories(storage, directory)
    return False


def _in_one_step(storage: FileIO, source: str, target: str) -> bool:
    """Return whether nothing is left to move. A target that holds something is that of an earlier try."""
    if storage.stat(target) is not None and storage.list(target):
        return False
    try:
        storage.remove_directory(target)
        return storage.move_directory(source, target)
    except NotFoundError:
        return True


def _schemas(storage: FileIO, table: str) -> list[str]:
    """Return the paths of the schemas of the main branch, oldest first."""
    paths = TablePaths(table)
    return [paths.schema(number) for number in SchemaStore(storage, paths).list_ids()]


def _move_file(storage: FileIO, path: str, target: str) -> None:
    try:
        storage.move(path, target)
    except NotFoundError:
        return  # moved by an earlier try
    except AlreadyExistsError:
        if storage.read(path) != storage.read(target):
            raise
        storage.delete(path)  # a killed move left it under both names


def _remove_directories(storage: FileIO, directory: str) -> None:
    """Remove a directory of which only directories are left."""
    children: list[FileStatus] = storage.list(directory)
    for status in children:
        if status.is_dir:
            _remove_directories(storage, status.path)
    storage.remove_directory(directory)
