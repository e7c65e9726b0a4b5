"""This module says what a store is: its schemes, its options, and how its paths are written and opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.fs.file_io import FileIO
from lakecore.options import Option

__all__ = ["Store", "bucket_path"]


@dataclass(frozen=True, slots=True)
class Store:
    """This is a kind of storage. Another package registers one as an entry point of the group
    `lakecore.stores` whose name is the scheme.
    """

    schemes: tuple[str, ...]
    """These schemes mean this store; the first is that of plain paths."""
    example: str
    """This is a location, for messages."""
    plain: Callable[[str, str], str]
    """It returns the plain path of a scheme and what follows it. It raises InvalidInputError."""
    open: Callable[[Mapping[str, str]], FileIO]
    """It returns the storage that the options of a catalog describe; the storage connects on first use."""
    options: tuple[Option[Any], ...] = ()
    accepts: Callable[[str], bool] = lambda key: False
    """It tells whether the store obeys an option of that key beside `options` (keys that name an account)."""
    is_object_store: bool = True
    """It tells whether Java Paimon publishes by a copy here: then catalogs lock by default."""
    is_replaceable: bool = True
    """It tells whether Java Paimon may replace a snapshot that another writer published a moment ago; it
    cannot where the store itself refuses a name that exists.
    """
    is_read_only: bool = False
    """It tells whether lakecore refuses every change there, whatever the options say."""

    def option_keys(self) -> frozenset[str]:
        """Return the keys of `options`, with their old names."""
        return frozenset(key for option in self.options for key in option.keys)


def bucket_path(scheme: str, rest: str, example: str) -> str:
    """Return `scheme://bucket/key` without empty parts. Raises InvalidInputError without a bucket."""
    parts = [part for part in rest.split("/") if part]
    if not parts:
        raise InvalidInputError(f"{scheme}:{rest} names no bucket; write {example}")
    return f"{scheme}://" + "/".join(parts)
