"""This module opens catalogs by the option `metastore`.

Other packages add kinds by entry points of the group `lakecore.catalogs`: the name is the value of
`metastore`, and the object has the methods of `CatalogKind`. The kinds of lakecore itself cannot be replaced.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Protocol, cast

from lakecore.catalog.catalog_options import METASTORE, is_shared_option
from lakecore.catalog.config import CatalogConfig, read_config, resolve
from lakecore.errors import InvalidOptionError, LakeError, UnsupportedError, reason

if TYPE_CHECKING:
    from lakecore.catalog.catalog import Catalog

__all__ = ["CatalogKind", "kind_option_keys", "load_catalog", "open_catalog", "with_catalog_name"]

_GROUP = "lakecore.catalogs"
_OWN = {
    "filesystem": "lakecore.catalog.filesystem:FilesystemCatalog",
    "hive": "lakecore.catalog.hive.hive_catalog:HiveCatalog",
    "jdbc": "lakecore.catalog.jdbc.jdbc_catalog:JdbcCatalog",
    "rest": "lakecore.catalog.rest.rest_catalog:RestCatalog",
}
_DEFAULT = "filesystem"


class CatalogKind(Protocol):
    """This is a kind of catalog, as the registry needs it; usually the class of the catalog."""

    def option_keys(self) -> frozenset[str]:
        """Return the keys of options that only this kind has, beside those of storage."""

    def open(self, config: CatalogConfig, *, create: bool = False) -> Catalog:
        """Open a catalog. `create`: the warehouse may be missing. Raises InvalidOptionError for options that
        the kind does not obey.
        """


def load_catalog(
    warehouse: str | os.PathLike[str] | None = None, *, create_warehouse: bool = False, **options: str
) -> Catalog:
    """Open a warehouse: its location, the name of a configured catalog, or None for the configured default.

    The option `metastore` chooses the kind of catalog. `options` reach the storage (`**{"s3.endpoint": …}`)
    and win over configured ones. Raises NotFoundError when there is no such catalog or warehouse,
    InvalidInputError for what is not a location, UnsupportedError and InvalidOptionError for options that
    this catalog does not obey, and PrivilegeError for a user whom a warehouse with Paimon's privileges does
    not let in (`user` and `password`).
    """
    config = _config(None if warehouse is None else os.fspath(warehouse), options)
    merged = {**config.options, **{key: str(value) for key, value in options.items()}}
    name = os.environ.get("LAKECORE_CATALOG", "") if warehouse is None else os.fspath(warehouse)
    with with_catalog_name(name, _is_configured):
        return open_catalog(CatalogConfig(config.warehouse, merged), create=create_warehouse)


def _is_configured(name: str) -> bool:
    """Return whether a catalog of this name is configured, as far as the files of catalogs can be read."""
    try:
        return name in read_config(os.environ)
    except LakeError:
        return False


@contextmanager
def with_catalog_name(
    name: str | None, is_configured: Callable[[str], bool] = lambda _: True
) -> Iterator[None]:
    """Add the name of a configured catalog to the errors of opening it. Only after an error it is asked
    whether it is one.
    """
    try:
        yield
    except LakeError as err:
        if name is not None and is_configured(name):
            err.add_note(f"the catalog is {name!r}")
        raise


def _config(warehouse: str | None, options: Mapping[str, str]) -> CatalogConfig:
    """Return the catalog that is meant. The warehouse of a REST catalog is a name that the server knows; a
    Hive metastore has a warehouse of its own.
    """
    metastore = str(options.get(METASTORE, "")).strip().lower()
    if metastore == "hive" and warehouse is None:
        return CatalogConfig("", {})
    if metastore == "rest" and warehouse is not None and warehouse not in read_config(os.environ):
        return CatalogConfig(warehouse, {})
    return resolve(warehouse, os.environ)


def open_catalog(config: CatalogConfig, *, create: bool = False) -> Catalog:
    """Open the catalog of the kind that the option `metastore` names, by default of a file system.

    Raises UnsupportedError for an unknown kind, naming those there are with their options, and the errors of
    opening the catalog.
    """
    metastore = config.options.get(METASTORE, _DEFAULT).strip().lower()
    kind = _kind(metastore)
    if metastore in _OWN:
        _check_options_of_others(config.options, metastore, kind.option_keys())
    return kind.open(config, create=create)


def _check_options_of_others(options: Mapping[str, str], metastore: str, own: frozenset[str]) -> None:
    """Raise InvalidOptionError for an option that only other kinds of catalogs have. It names them, because
    the option `metastore` is easily forgotten.
    """
    for key in sorted(set(options) - own):
        if is_shared_option(key):
            continue
        kinds = [name for name in _OWN if name != metastore and key in _kind(name).option_keys()]
        if kinds:
            raise InvalidOptionError(
                f"catalog option {key}: with {METASTORE}={metastore} it would have no effect; only catalogs "
                f"with {METASTORE}={' or '.join(kinds)} have it; set {METASTORE}, or leave it out"
            )


def kind_option_keys(metastore: str) -> frozenset[str]:
    """Return the keys of the options that only a kind of catalog has. Raises UnsupportedError for an unknown
    kind, naming those there are.
    """
    return _kind(metastore.strip().lower()).option_keys()


def _kind(metastore: str) -> CatalogKind:
    if metastore in _OWN:
        module, _, name = _OWN[metastore].partition(":")
        return cast("CatalogKind", getattr(importlib.import_module(module), name))
    entry_point = _others().get(metastore)
    if entry_point is not None:
        return _load(entry_point)
    kinds = "; ".join(_describe(name) for name in (*_OWN, *sorted(_others())))
    raise UnsupportedError(
        f"catalog option {METASTORE}={metastore}: there is no such catalog; there are {kinds}"
    )


def _others() -> dict[str, EntryPoint]:
    return {one.name: one for one in entry_points(group=_GROUP) if one.name not in _OWN}


def _load(entry_point: EntryPoint) -> CatalogKind:
    try:
        return cast("CatalogKind", entry_point.load())
    except (ImportError, AttributeError) as err:
        raise InvalidOptionError(
            f"catalog option {METASTORE}={entry_point.name}: {entry_point.value} cannot be imported "
            f"({reason(err)}); install or correct the package that registers it"
        ) from err


def _describe(name: str) -> str:
    """Return a kind with its options; of one that cannot be imported the name alone."""
    try:
        keys = sorted(_kind(name).option_keys())
    except InvalidOptionError:
        return name
    return f"{name} ({', '.join(keys)})" if keys else name
