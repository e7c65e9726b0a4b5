"""This module turns a location and options into a `FileIO`, and spellings of a path into its plain form."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from lakecore.errors import InvalidInputError
from lakecore.fs.file_io import FileIO
from lakecore.fs.local import LocalFileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.fs.stores.registry import OWN_STORES, store_of
from lakecore.options import Option, parse_bool

__all__ = ["STORAGE_OPTIONS", "file_io_for", "plain_path"]

LOCAL_SYNC = Option("local.fsync", parse_bool, True, "Make local files durable before a commit names them.")


def _parse_mode(text: str) -> int:
    if not re.fullmatch("0?[0-7]{3}", text.strip()):
        raise ValueError("must be permissions such as 600 or 660")
    return int(text, 8) | 0o600


SERVICE_MODE = Option(
    "local.service-file-mode", _parse_mode, 0o600, "Permissions of lakecore's own files in .lakecore/."
)

STORAGE_OPTIONS: tuple[Option[Any], ...] = (
    LOCAL_SYNC,
    SERVICE_MODE,
    *(option for store in OWN_STORES for option in store.options),
)
"""All options that storage accepts, whichever storage it is. `stores.registry.accepts_option` knows more."""


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")


def plain_path(location: str) -> str:
    """Return the form that a `FileIO` accepts: absolute without `file:`, the first scheme of a store (`s3://`
    for s3a and s3n), no slash at the end.

    Percent signs stay as they are: paths of the format are not URL-encoded, partition names hold `%2F`.
    Raises InvalidInputError for an empty location, UnsupportedError for a scheme that no store has.
    """
    if not location.strip() or "\0" in location:
        raise InvalidInputError(f"{location!r} is not a location; give a directory or s3://bucket/path")
    scheme, rest = _split(location)
    if scheme == "":
        return os.path.abspath(os.path.expanduser(location))
    if scheme == "file":
        return os.path.abspath("/" + rest.lstrip("/"))
    if scheme == "memory":
        return "memory://" + rest.strip("/")
    return store_of(scheme, location).plain(scheme, rest)


def file_io_for(location: str, options: Mapping[str, str]) -> FileIO:
    """Return storage for `location`. Options are the catalog's (`s3.endpoint`, …); storage reads its own
    among them.
    """
    path = plain_path(location)
    scheme, mark, rest = path.partition("://")
    if not mark:
        return LocalFileIO(sync=LOCAL_SYNC.read(options), service_mode=SERVICE_MODE.read(options))
    if scheme == "memory":
        return MemoryFileIO(rest.partition("/")[0])
    return store_of(scheme, location).open(options)


def _split(location: str) -> tuple[str, str]:
    match = _SCHEME.match(location)
    if match is None:
        return "", location
    return match[1].lower(), location[match.end() :]
