"""This module reads named catalogs: `lakecore.toml` and LAKECORE_* variables, as one mapping of options
per name.

    [catalogs.prod]
    warehouse = "s3://lake/warehouse"
    "s3.endpoint" = "https://s3.example"

The file is `$LAKECORE_CONFIG`, else `lakecore.toml` in the working directory, else
`~/.config/lakecore/lakecore.toml`; it wins over the files of `CatalogStore`. A value is a text, or
`{ env = "NAME" }` or `{ file = "PATH" }`, which is looked up when the catalog is opened.

`LAKECORE_CATALOG__PROD__WAREHOUSE` sets `warehouse` of `prod` and wins over the file; in the rest of such a
name `__` stands for a dot and `_` for a dash (`…__S3__ACCESS_KEY`). `LAKECORE_CATALOG` names the catalog, and
`LAKECORE_WAREHOUSE` the warehouse, when none is given. The option `default-database` of a catalog, and
`LAKECORE_DATABASE`, complete names of tables without a database.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import field

from lakecore.catalog.configured.catalog_store import CatalogStore, configured_value
from lakecore.catalog.configured.references import ConfiguredValue, value_of
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, NotFoundError

__all__ = ["DEFAULT_DATABASE", "CatalogConfig", "default_database", "read_config", "resolve"]

DEFAULT_DATABASE = "default-database"
"""This option of a configured catalog is Paimon's: the database of names without one."""

_FILE_NAME = "lakecore.toml"
_PREFIX = "LAKECORE_CATALOG__"


@dataclass(frozen=True, slots=True)
class CatalogConfig:
    """This is the location of a warehouse and the options to reach it, which may be secrets."""

    warehouse: str
    options: Mapping[str, str] = field(repr=False)


def resolve(catalog: str | None, environ: Mapping[str, str]) -> CatalogConfig:
    """Return the catalog that `catalog` means: a configured name, a location, or (None) what the environment
    says.

    A text with a slash, backslash or colon is a location. Raises NotFoundError naming the known catalogs,
    InvalidInputError when nothing determines the warehouse.
    """
    if catalog is None and "LAKECORE_CATALOG" not in environ and "LAKECORE_WAREHOUSE" in environ:
        return CatalogConfig(environ["LAKECORE_WAREHOUSE"], {})
    name = catalog if catalog is not None else environ.get("LAKECORE_CATALOG")
    if name is not None and any(mark in name for mark in "/\\:"):
        return CatalogConfig(name, {})
    catalogs = read_config(environ)
    if name is None:
        if len(catalogs) != 1:
            raise InvalidInputError(
                "no warehouse is configured: give one (`lakecore --warehouse PATH` before the command, "
                "`load_catalog(PATH)` in Python), set LAKECORE_WAREHOUSE, or name a catalog of "
                f"{_FILE_NAME} ({_names_of(catalogs)})"
            )
        name = next(iter(catalogs))
    if name in catalogs:
        return _config(name, catalogs[name], environ)
    if os.path.isdir(name):
        return CatalogConfig(name, {})
    raise NotFoundError(
        f"{name!r} is neither a catalog in {_FILE_NAME} or the environment "
        f"({_names_of(catalogs)}) nor a directory"
    )


def default_database(catalog: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the database of names without one: that of the configured catalog, else LAKECORE_DATABASE."""
    name = catalog or environ.get("LAKECORE_CATALOG", "")
    value = read_config(environ).get(name, {}).get(DEFAULT_DATABASE) if name else None
    return environ.get("LAKECORE_DATABASE") if value is None else value_of(DEFAULT_DATABASE, value, environ)


def read_config(environ: Mapping[str, str]) -> Mapping[str, Mapping[str, ConfiguredValue]]:
    """Read options by catalog name. Raises InvalidInputError naming a file that cannot be read as TOML."""
    of_file = {name: dict(options) for name, options in _from_file(environ).items()}
    catalogs = {**CatalogStore.of(environ).read(), **of_file}
    for variable, value in environ.items():
        if variable.startswith(_PREFIX):
            name, _, key = variable.removeprefix(_PREFIX).partition("__")
            if name and key:
                option = key.lower().replace("__", ".").replace("_", "-")
                catalogs.setdefault(name.lower(), {})[option] = value
    return catalogs


def _from_file(environ: Mapping[str, str]) -> Mapping[str, Mapping[str, ConfiguredValue]]:
    path = _path(environ)
    if path is None:
        return {}
    try:
        with open(path, "rb") as file:
            catalogs = tomllib.load(file).get("catalogs", {})
        return {
            name: {key: configured_value(value) for key, value in table.items()}
            for name, table in catalogs.items()
        }
    except FileNotFoundError as err:
        raise NotFoundError(
            f"{path}: the file does not exist, although LAKECORE_CONFIG refers to it"
        ) from err
    except (OSError, ValueError, AttributeError) as err:
        raise InvalidInputError(
            f"{path}: this is not a catalog file: {err}; write a section [catalogs.NAME] with "
            "warehouse = 'PATH'"
        ) from err


def _path(environ: Mapping[str, str]) -> str | None:
    if "LAKECORE_CONFIG" in environ:
        return environ["LAKECORE_CONFIG"]
    home = environ.get("HOME", "")
    for path in (_FILE_NAME, os.path.join(home, ".config", "lakecore", _FILE_NAME)):
        if os.path.isfile(path):
            return path
    return None


def _config(
    name: str, configured: Mapping[str, ConfiguredValue], environ: Mapping[str, str]
) -> CatalogConfig:
    options = {key: value_of(key, value, environ) for key, value in configured.items()}
    warehouse = options.get("warehouse", "").strip()
    if not warehouse and options.get("metastore", "").strip().lower() != "hive":
        raise InvalidInputError(f"catalog {name!r} has no warehouse: set it in {_FILE_NAME}")
    of_no_catalog = ("warehouse", DEFAULT_DATABASE)
    return CatalogConfig(
        warehouse, {key: value for key, value in options.items() if key not in of_no_catalog}
    )


def _names_of(catalogs: Collection[str]) -> str:
    return "known: " + (", ".join(sorted(catalogs)) or "none")
