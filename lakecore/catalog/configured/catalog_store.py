"""This module keeps definitions of catalogs in files, one each, so that they outlive a process.

The directory is `$LAKECORE_CATALOG_STORE`, else `~/.config/lakecore/catalogs`. A file is `NAME.toml`, which
only its owner can read. It appears whole or not at all, and of two processes that create one name, one
succeeds.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from contextlib import suppress

from lakecore.catalog.configured.catalog_names import check_catalog_name, is_catalog_name
from lakecore.catalog.configured.references import ConfiguredValue, Reference
from lakecore.data_class import dataclass
from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    is_secret,
    mask_secrets,
)

__all__ = ["CatalogStore", "configured_value"]

_SUFFIX = ".toml"
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def configured_value(value: object) -> ConfiguredValue:
    """Convert a value of TOML. Raises ValueError for lists, and for tables that are no reference."""
    if isinstance(value, dict):
        return Reference.from_toml(value)
    if isinstance(value, list):
        raise ValueError("a value cannot be a list")
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class CatalogStore:
    """This is a directory with one file for each catalog."""

    directory: str

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> CatalogStore:
        """Return the store that the environment names, by default that of the user."""
        home = environ.get("HOME", "")
        of_user = os.path.join(home, ".config", "lakecore", "catalogs") if home else ""
        return cls(environ.get("LAKECORE_CATALOG_STORE") or of_user)

    def read(self) -> dict[str, dict[str, ConfiguredValue]]:
        """Read all definitions by name. Raises InvalidInputError naming a file that is none."""
        return {name: self._load(name) for name in self.names()}

    def names(self) -> tuple[str, ...]:
        """List the names in order; none where there is no directory."""
        try:
            listing = os.listdir(self.directory)
        except FileNotFoundError:
            return ()
        except OSError as err:
            raise UnavailableError(
                f"{self.directory}: the catalogs cannot be listed: {err.strerror}"
            ) from err
        names = (name.removesuffix(_SUFFIX) for name in listing if name.endswith(_SUFFIX))
        return tuple(sorted(filter(is_catalog_name, names)))

    def create(self, name: str, options: Mapping[str, ConfiguredValue]) -> None:
        """Store a definition. Raises AlreadyExistsError; InvalidInputError for a secret that stands in the
        definition itself, or that no warehouse is named.
        """
        if not self.directory:
            raise InvalidInputError("there is no directory for catalogs: set LAKECORE_CATALOG_STORE or HOME")
        path = self._path(name)
        self.check(options)
        text = "".join(f"{_quote(key)} = {_toml(value)}\n" for key, value in sorted(options.items()))
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            descriptor, draft = tempfile.mkstemp(prefix=".", dir=self.directory)  # its mode is 0600
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(draft, path)
            finally:
                with suppress(OSError):
                    os.unlink(draft)
        except FileExistsError as err:
            raise AlreadyExistsError(
                f"catalog {name!r} exists ({path}); drop it, or choose another name"
            ) from err
        except OSError as err:
            raise UnavailableError(f"{path}: the catalog cannot be stored: {err.strerror}") from err

    def check(self, options: Mapping[str, ConfiguredValue]) -> None:
        """Raise InvalidInputError for options that are not stored: a secret itself, or no warehouse."""
        warehouse = options.get("warehouse", "")
        if isinstance(warehouse, str) and not warehouse.strip():
            raise InvalidInputError("a catalog needs a warehouse: give the option warehouse")
        for key, value in options.items():
            if isinstance(value, str) and (is_secret(key) or mask_secrets(value) != value):
                raise InvalidInputError(
                    f"catalog option {key}: the value is a secret, or holds one, and is not stored; "
                    "refer to a variable of the environment or to a file (--option-env, --option-file)"
                )

    def drop(self, name: str) -> None:
        """Remove a definition; the catalog itself, its databases and tables stay. Raises NotFoundError."""
        path = self._path(name)
        try:
            os.unlink(path)
        except FileNotFoundError as err:
            raise NotFoundError(f"catalog {name!r} is not in {self.directory}") from err
        except OSError as err:
            raise UnavailableError(f"{path}: the catalog cannot be dropped: {err.strerror}") from err

    def _load(self, name: str) -> dict[str, ConfiguredValue]:
        path = self._path(name)
        try:
            with open(path, "rb") as file:
                return {key: configured_value(value) for key, value in tomllib.load(file).items()}
        except FileNotFoundError as err:
            raise NotFoundError(f"catalog {name!r} was dropped meanwhile") from err
        except (OSError, ValueError) as err:
            raise InvalidInputError(
                f"{path}: this is no definition of a catalog: {err}; correct or remove it"
            ) from err

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, check_catalog_name(name) + _SUFFIX)


def _toml(value: ConfiguredValue) -> str:
    if isinstance(value, Reference):
        return f"{{ {value.kind} = {_quote(value.name)} }}"
    return _quote(value)


def _quote(text: str) -> str:
    """Return a basic string of TOML. Raises InvalidInputError for control characters it cannot hold."""
    if _CONTROL.search(text):
        raise InvalidInputError(f"{text[:80]!r}: names and values of options have no control characters")
    return '"' + "".join(_ESCAPES.get(one, one) for one in text) + '"'
