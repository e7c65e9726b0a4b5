"""This module finds the store of a scheme: lakecore's own ones, and those that other packages register as
entry points of the group `lakecore.stores`. Any other scheme that fsspec knows is read only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from lakecore.errors import InvalidInputError, UnsupportedError, reason
from lakecore.fs.stores.azure import AZURE_STORE
from lakecore.fs.stores.cosn import COSN_STORE
from lakecore.fs.stores.fsspec.store import fsspec_store, is_fsspec_option
from lakecore.fs.stores.gcs import GCS_STORE
from lakecore.fs.stores.hdfs import HDFS_STORE
from lakecore.fs.stores.obs import OBS_STORE
from lakecore.fs.stores.oss import OSS_STORE
from lakecore.fs.stores.s3 import S3_STORE
from lakecore.fs.stores.store import Store

__all__ = ["OWN_STORES", "accepts_option", "is_object_store", "is_read_only", "is_remote", "store_of"]

_GROUP = "lakecore.stores"

OWN_STORES = (S3_STORE, AZURE_STORE, GCS_STORE, OSS_STORE, COSN_STORE, OBS_STORE, HDFS_STORE)
_OWN = {scheme: store for store in OWN_STORES for scheme in store.schemes}


def store_of(scheme: str, location: str) -> Store:
    """Return the store of a scheme in lower case. Raises UnsupportedError that lists all schemes,
    InvalidInputError for a registered store that cannot be loaded.
    """
    if scheme in _OWN:
        return _OWN[scheme]
    others = _others()
    if scheme in others:
        return _load(others[scheme])
    if store := fsspec_store(scheme):
        return store
    schemes = ", ".join(f"{name}://" for name in (*_OWN, *sorted(others)))
    raise UnsupportedError(
        f"{location}: lakecore has no storage for scheme {scheme!r}; use a local path, or one of {schemes}; "
        "schemes of fsspec are read with pip install 'lakecore[fsspec]'"
    )


def is_object_store(path: str) -> bool:
    """Return whether a plain path is in a store in which Java Paimon publishes by a copy."""
    return is_remote(path) and store_of(path.partition("://")[0], path).is_object_store


def is_read_only(path: str) -> bool:
    """Return whether a plain path is in a store in which lakecore changes nothing."""
    return is_remote(path) and store_of(path.partition("://")[0], path).is_read_only


def is_remote(path: str) -> bool:
    """Return whether a plain path is in a store, so that each request to it takes its time."""
    return "://" in path and not path.startswith("memory://")


def accepts_option(key: str) -> bool:
    """Return whether a store obeys an option that `STORAGE_OPTIONS` does not list: its key names an account,
    or the store is one of another package.
    """
    if is_fsspec_option(key) or any(store.accepts(key) for store in OWN_STORES):
        return True
    return any(key in store.option_keys() or store.accepts(key) for store in _stores_of_others())


@cache
def _others() -> dict[str, EntryPoint]:
    return {one.name: one for one in entry_points(group=_GROUP) if one.name not in _OWN}


def _stores_of_others() -> Iterator[Store]:
    """Return the stores of other packages; one that cannot be loaded is reported where its scheme is used."""
    for one in _others().values():
        try:
            yield _load(one)
        except InvalidInputError:
            continue


def _load(entry_point: EntryPoint) -> Store:
    try:
        store = entry_point.load()
    except (ImportError, AttributeError) as err:
        raise InvalidInputError(
            f"the store {entry_point.name}:// is registered as {entry_point.value}, which cannot be imported "
            f"({reason(err)}); install or correct the package that registers it"
        ) from err
    if not isinstance(store, Store):
        raise InvalidInputError(
            f"the store {entry_point.name}:// is registered as {entry_point.value}, which is no "
            "lakecore.fs.stores.store.Store; correct the package that registers it"
        )
    return store
