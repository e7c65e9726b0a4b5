"""This module finds the file system of fsspec that a scheme names. lakecore only reads there."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakecore.errors import InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.fs.read_only import ReadOnlyFileIO
from lakecore.fs.stores.fsspec.connection import (
    OPTION_PREFIX,
    REFUSED_OPTIONS,
    ROOT,
    FsspecConnection,
    name_of,
    names_password,
)
from lakecore.fs.stores.fsspec.files import FsspecFiles
from lakecore.fs.stores.store import Store

__all__ = ["fsspec_store", "is_fsspec_option"]

_COPY = "it keeps copies of files and would hide new snapshots; name the file system that it would copy"
_DISK = "local disks have no scheme; write the path of the directory"
_FTP = "fsspec reports failures of FTP as missing files, so that a table may look empty; use sftp://"
_REFUSED = {
    "ftp": _FTP,
    "viewfs": "mount tables of Hadoop are not read; write hdfs://nameservice/path",
    **dict.fromkeys(("blockcache", "cached", "filecache", "simplecache"), _COPY),
    **dict.fromkeys(("asynclocal", "file", "local"), _DISK),
}
"""lakecore does not open these file systems of fsspec, for these reasons."""

_READ_ONLY = (
    "lakecore only reads the file systems of fsspec, because fsspec cannot create a file on the condition "
    "that there is none, so two writers could lose each other's commits; write to a table on a local disk "
    "or in a store of lakecore's own (docs/stores.md)"
)


def fsspec_store(scheme: str) -> Store | None:
    """Return the store of a scheme that fsspec knows, or None. `fsspec+SCHEME` means fsspec's file system of
    a scheme that another store has, too. It costs the import of fsspec.

    Raises UnsupportedError for the file systems that keep copies of files, for local disks, FTP and mount
    tables.
    """
    name = name_of(scheme)
    try:
        from fsspec import available_protocols
    except ImportError:
        return None
    if name not in available_protocols():
        return None
    if name in _REFUSED:
        raise UnsupportedError(f"{scheme}:// cannot be read: {_REFUSED[name]}")

    def open_store(options: Mapping[str, str]) -> ReadOnlyFileIO:
        return ReadOnlyFileIO(FsspecFiles(FsspecConnection(scheme, _parameters(options))), _READ_ONLY)

    return Store((scheme,), f"{scheme}://host/path", _plain, open_store, is_read_only=True)


def is_fsspec_option(key: str) -> bool:
    """Return whether a catalog option is for a file system of fsspec."""
    return key.startswith(OPTION_PREFIX) and len(key) > len(OPTION_PREFIX)


def _parameters(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return names and texts of the options. Raises InvalidOptionError for one that lakecore decides."""
    chosen = {key.removeprefix(OPTION_PREFIX): text for key, text in options.items() if is_fsspec_option(key)}
    for name in sorted(chosen.keys() & REFUSED_OPTIONS.keys()):
        raise InvalidOptionError(f"option {OPTION_PREFIX}{name}: {REFUSED_OPTIONS[name]}; leave it out")
    return tuple(sorted(chosen.items()))


def _plain(scheme: str, rest: str) -> str:
    """Return the location without empty parts. `scheme://~` is the root of a file system without hosts."""
    location = f"{scheme}:{rest}"
    parts = [part for part in rest.split("/") if part]
    if "::" in rest:
        raise UnsupportedError(
            f"{location}: chains of fsspec (a::b) are no locations; name the inner file in an option, such "
            f"as {OPTION_PREFIX}fo=https://host/tables.zip for zip://"
        )
    if ".." in parts:
        raise InvalidInputError(f"{location}: a location of {scheme}:// cannot have the part '..'")
    if name_of(scheme) in {"http", "https"} and re.search("[?#]", rest):
        raise InvalidInputError(f"{location}: a location cannot have a query or a fragment (? or #)")
    if parts and names_password(scheme, rest):
        raise InvalidInputError(
            f"{location}: a location is shown in messages and cannot have a password; give it as option "
            f"{OPTION_PREFIX}password, or as the file system of fsspec names it"
        )
    return f"{scheme}://" + ("/".join(parts) or ROOT)
