"""This module opens a file system of fsspec. Its caches of listings and of itself are switched off: a listing
that was kept would hide new snapshots.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any
from urllib.parse import quote, unquote

from lakecore.data_class import dataclass
from lakecore.errors import UnavailableError, is_secret
from lakecore.fs.stores.fsspec.failures import fsspec_errors

__all__ = ["OPTION_PREFIX", "REFUSED_OPTIONS", "ROOT", "FsspecConnection", "name_of", "names_password"]

OPTION_PREFIX = "fsspec."
"""`fsspec.NAME` is the parameter NAME of the file system of fsspec."""

_KEEPS = "lakecore keeps neither listings nor connections of fsspec, because they would hide new snapshots"
REFUSED_OPTIONS: Mapping[str, str] = {
    "asynchronous": "lakecore waits for each request",
    "loop": "lakecore waits for each request",
    "listings_expiry_time": _KEEPS,
    "max_paths": _KEEPS,
    "mode": "lakecore only reads the file systems of fsspec",
    "skip_instance_cache": _KEEPS,
    "use_listings_cache": _KEEPS,
}
"""These parameters are lakecore's to choose, with the reasons."""

ROOT = "~"
"""It stands for the root in plain paths of a file system without hosts, such as `zip://~/db.db/t`."""

_EXPLICIT = "fsspec+"
_JSON_STARTS = '{["-0123456789'
_HTTP = frozenset({"http", "https"})


@dataclass(frozen=True, slots=True)
class FsspecConnection:
    """It says which file system of fsspec is read. The values of options are left out of `repr`."""

    scheme: str
    """It is the scheme of plain paths: that of fsspec, perhaps with `fsspec+` before it."""
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """These are parameters of the file system, as texts."""

    @property
    def is_http(self) -> bool:
        """Return whether paths are addresses of HTTP, in which special characters are escaped."""
        return name_of(self.scheme) in _HTTP

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return texts that no message may show."""
        return tuple(text for _, text in self.options if len(text) > 3)

    def url(self, path: str) -> str:
        """Return the path as fsspec takes it: with its own scheme, escaped for HTTP."""
        rest = path.partition("://")[2]
        rest = "" if rest == ROOT else rest.removeprefix(f"{ROOT}/")
        if self.is_http:
            host, mark, below = rest.partition("/")
            rest = host + mark + quote(below)
        return f"{name_of(self.scheme)}://{rest}"

    def inner_path(self, path: str) -> str:
        """Return the path in the file system, without its scheme and host."""
        return str(file_system_class(self.scheme, path)._strip_protocol(self.url(path)))

    def child_name(self, entry: str) -> str:
        """Return the last part of a path that fsspec listed; it is empty for links that are no files."""
        name = entry.rstrip("/").rpartition("/")[2]
        if not self.is_http:
            return name
        return "" if "?" in name or "#" in name else unquote(name)

    def key(self, path: str) -> tuple[tuple[str, Any], ...]:
        """Return what the path says of its file system (host, port, user): paths of one key share one."""
        kind = file_system_class(self.scheme, path)
        return tuple(sorted(kind._get_kwargs_from_urls(self.url(path)).items()))

    def connect(self, path: str, key: tuple[tuple[str, Any], ...]) -> Any:
        """Open the file system in which a path lies. Raises UnavailableError when its library is missing or
        it does not answer, InvalidOptionError for parameters that it does not have.
        """
        kind = file_system_class(self.scheme, path)
        chosen = {name: _value(name, text) for name, text in self.options}
        if self.is_http:
            chosen["encoded"] = True
        from fsspec.dircache import DirCache

        with fsspec_errors("open", path, self.secrets):
            file_system = kind(**{**chosen, **dict(key)}, skip_instance_cache=True)
            file_system.dircache = DirCache(use_listings_cache=False)
            return file_system


def name_of(scheme: str) -> str:
    """Return fsspec's name of a scheme."""
    return scheme.removeprefix(_EXPLICIT)


def file_system_class(scheme: str, path: str) -> Any:
    """Return fsspec's class of a scheme. Raises UnavailableError that names the library to install."""
    from fsspec import get_filesystem_class

    try:
        return get_filesystem_class(name_of(scheme))
    except ImportError as err:
        raise UnavailableError(f"cannot open {path}: {err}") from err


def names_password(scheme: str, rest: str) -> bool:
    """Return whether the host of a location has a password before it."""
    user, mark, _ = rest.lstrip("/").partition("/")[0].rpartition("@")
    if not mark or ":" not in user:
        return False
    name, location = name_of(scheme), f"{name_of(scheme)}:{rest}"
    return name in _HTTP or "password" in file_system_class(scheme, location)._get_kwargs_from_urls(location)


def _value(name: str, text: str) -> Any:
    """Return what a text means: JSON where it looks like it, but secrets are texts unless they are quoted."""
    if is_secret(name) and text[:1] not in {'"', "{"}:
        return text
    if text not in {"true", "false", "null"} and text[:1] not in _JSON_STARTS:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
