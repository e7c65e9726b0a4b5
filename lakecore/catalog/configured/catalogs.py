"""This module has several catalogs at once, by name, as Flink's CatalogManager has them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field

from lakecore.catalog.catalog import Catalog
from lakecore.catalog.config import CatalogConfig, default_database, read_config, resolve
from lakecore.catalog.configured.catalog_names import QualifiedName, check_catalog_name, qualified
from lakecore.catalog.configured.catalog_store import CatalogStore
from lakecore.catalog.configured.references import ConfiguredValue, value_of
from lakecore.catalog.registry import open_catalog, with_catalog_name
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lakecore.table import Table

__all__ = ["Catalogs"]


@dataclass(frozen=True)
class Catalogs:
    """These are the configured catalogs: each is opened at its first use, and the same object afterwards.

    Names of tables are `catalog.db.t`; `db.t` is in the default catalog, which `LAKECORE_CATALOG` or
    `LAKECORE_WAREHOUSE` names, and `t` in its default database. Close it, or use it as a context manager.
    """

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    """These are the variables that name catalogs and hold their secrets."""
    _open: dict[str | None, Catalog] = field(default_factory=dict, init=False, repr=False, compare=False)

    def names(self) -> tuple[str, ...]:
        """List the names of the configured catalogs, in order."""
        return tuple(sorted(read_config(self.environ)))

    def catalog(self, name: str | None = None) -> Catalog:
        """Return a catalog, by default the default one. Raises NotFoundError naming those there are, and the
        errors of opening it.
        """
        catalog = self._open.get(name)
        if catalog is None:
            if name is not None and name not in read_config(self.environ):
                raise NotFoundError(
                    f"catalog {name!r} is not configured; there are: {', '.join(self.names()) or 'none'}"
                )
            with with_catalog_name(name):
                catalog = self._open[name] = open_catalog(resolve(name, self.environ))
        return catalog

    def split(self, name: str) -> QualifiedName:
        """Return the catalog that a name of a table begins with, and `db.t`. Raises InvalidInputError for a
        name without a database where there is no default.
        """
        parsed = qualified(name, read_config(self.environ))
        if "." in parsed.rest.partition("$")[0]:
            return parsed
        database = default_database(parsed.catalog, self.environ)
        if not database:
            raise InvalidInputError(
                f"table {name!r}: write DATABASE.TABLE, or set default-database of the catalog or "
                "LAKECORE_DATABASE"
            )
        return QualifiedName(parsed.catalog, f"{database}.{parsed.rest}")

    def load_table(self, name: str, options: Mapping[str, str] | None = None) -> Table:
        """Load `catalog.db.t`, `db.t` or `t`, as `Catalog.load_table` does."""
        parsed = self.split(name)
        return self.catalog(parsed.catalog).load_table(parsed.rest, options)

    def create(self, name: str, options: Mapping[str, ConfiguredValue]) -> None:
        """Store a catalog in the files of `CatalogStore`, after it could be opened. Secrets are references.

        Raises AlreadyExistsError for a configured name, the errors of opening the catalog, and those of
        `CatalogStore.create`.
        """
        if check_catalog_name(name) in read_config(self.environ):
            raise AlreadyExistsError(f"catalog {name!r} is configured; drop it, or choose another name")
        store = CatalogStore.of(self.environ)
        store.check(options)
        values = {key: value_of(key, value, self.environ) for key, value in options.items()}
        others = {key: value for key, value in values.items() if key not in ("warehouse", "default-database")}
        open_catalog(CatalogConfig(values["warehouse"], others), create=True).close()
        store.create(name, options)

    def drop(self, name: str) -> None:
        """Remove a catalog from the files of `CatalogStore`; its databases and tables stay.

        Raises NotFoundError, and InvalidInputError for one that stands elsewhere.
        """
        store = CatalogStore.of(self.environ)
        if name not in store.names() and name in read_config(self.environ):
            raise InvalidInputError(
                f"catalog {name!r} is defined in lakecore.toml or in LAKECORE_CATALOG__ variables; remove it "
                "there"
            )
        store.drop(name)
        opened = self._open.pop(name, None)
        if opened is not None:
            opened.close()

    def close(self) -> None:
        """Close all catalogs that were opened."""
        while self._open:
            self._open.popitem()[1].close()

    def __enter__(self) -> Catalogs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
