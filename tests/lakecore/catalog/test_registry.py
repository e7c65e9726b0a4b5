"""Kinds of catalogs by the option `metastore`, also those of other packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from lakecore.catalog import registry
from lakecore.catalog.config import CatalogConfig
from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.errors import InvalidOptionError, UnsupportedError


class Glue:
    """A catalog of another package."""

    @staticmethod
    def option_keys() -> frozenset[str]:
        return frozenset({"glue.region"})

    @staticmethod
    def open(config: CatalogConfig, *, create: bool = False) -> tuple[CatalogConfig, bool]:
        return config, create


@pytest.fixture(autouse=True)
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        EntryPoint("glue", f"{__name__}:Glue", "lakecore.catalogs"),
        EntryPoint("broken", "no_such_package:Catalog", "lakecore.catalogs"),
        EntryPoint("filesystem", f"{__name__}:Glue", "lakecore.catalogs"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: found if group == "lakecore.catalogs" else [])
    monkeypatch.setattr(
        "sys.modules", {**__import__("sys").modules, __name__: __import__("types").SimpleNamespace(Glue=Glue)}
    )


def test_other_packages_add_kinds_and_replace_none(tmp_path: Path) -> None:
    config, create = registry.load_catalog(
        tmp_path, create_warehouse=True, metastore="Glue", **{"glue.region": "x"}
    )
    assert (config.warehouse, config.options["glue.region"], create) == (str(tmp_path), "x", True)
    assert isinstance(registry.load_catalog(tmp_path, metastore="filesystem"), FilesystemCatalog)


def test_an_unknown_kind_is_told_those_there_are_with_their_options(tmp_path: Path) -> None:
    with pytest.raises(
        UnsupportedError, match=r"metastore=x: there is no such catalog; .*broken; glue \(glue.region\)"
    ):
        registry.load_catalog(tmp_path, metastore="x")
    with pytest.raises(
        InvalidOptionError, match="metastore=broken: no_such_package:Catalog cannot be imported"
    ):
        registry.load_catalog(tmp_path, metastore="broken")


def test_options_without_effect_are_refused_with_the_reason(tmp_path: Path) -> None:
    same = {"cache-enabled": "true", "cache.partition.max-num": "0", "cache.snapshot.max-num-per-table": "0"}
    assert FilesystemCatalog.open(CatalogConfig(str(tmp_path), same)).list_databases() == []
    for key, why in (
        ("cache.manifest.soft-values", "bounded by its options.*set it to false"),
        ("case-sensitive", "as they are written"),
        ("lock.type", "that of its metastore"),
    ):
        with pytest.raises(UnsupportedError, match=f"catalog option {key}.*: .*{why}"):
            FilesystemCatalog.open(CatalogConfig(str(tmp_path), {"cache-enabled": "true", key: "1"}))


@pytest.mark.parametrize(
    ("metastore", "key", "kinds"),
    [
        (None, "uri", "hive or jdbc or rest"),
        ("filesystem", "lock.enabled", "hive or jdbc"),
        ("jdbc", "hive-conf-dir", "hive"),
        ("hive", "catalog-key", "jdbc"),
        ("rest", "location-in-properties", "hive"),
    ],
)
def test_an_option_of_other_kinds_is_refused_with_their_names(
    tmp_path: Path, metastore: str | None, key: str, kinds: str
) -> None:
    options = {key: "x"} if metastore is None else {"metastore": metastore, key: "x"}
    with pytest.raises(InvalidOptionError, match=f"catalog option {key}: .*metastore={kinds} have it"):
        registry.open_catalog(CatalogConfig(str(tmp_path), options))
    assert list(tmp_path.iterdir()) == []
