"""Which warehouse a name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakecore.catalog.config import CatalogConfig, read_config, resolve
from lakecore.errors import InvalidInputError, NotFoundError

TOML = """
[catalogs.prod]
warehouse = "s3://lake/warehouse"
"s3.endpoint" = "https://s3.example"
"s3.path.style.access" = true

[catalogs.broken]
"s3.endpoint" = "x"
"""


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "lakecore.toml"
    path.write_text(TOML)
    return {"LAKECORE_CONFIG": str(path)}


def test_a_configured_name(config: dict[str, str]) -> None:
    options = {"s3.endpoint": "https://s3.example", "s3.path.style.access": "true"}

    assert resolve("prod", config) == CatalogConfig("s3://lake/warehouse", options)
    assert resolve(None, config | {"LAKECORE_CATALOG": "prod"}).warehouse == "s3://lake/warehouse"


@pytest.mark.parametrize("location", ["/data/wh", "./wh", "s3://b/wh", "memory://x", "C:\\wh"])
def test_a_location(location: str, config: dict[str, str]) -> None:
    assert resolve(location, config) == CatalogConfig(location, {})


def test_the_environment(config: dict[str, str]) -> None:
    assert resolve(None, {"LAKECORE_WAREHOUSE": "/wh"}) == CatalogConfig("/wh", {})
    added = {"LAKECORE_CATALOG__DEV__WAREHOUSE": "/dev-wh", "LAKECORE_CATALOG__DEV__S3__ACCESS_KEY": "k"}
    assert resolve("dev", config | added) == CatalogConfig("/dev-wh", {"s3.access-key": "k"})
    assert resolve("prod", config | {"LAKECORE_CATALOG__PROD__WAREHOUSE": "/other"}).warehouse == "/other"


def test_a_file_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lakecore.toml").write_text('[catalogs.only]\nwarehouse = "/wh"\n')

    assert resolve(None, {}) == CatalogConfig("/wh", {})


def test_a_directory_without_slashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wh").mkdir()

    assert resolve("wh", {}) == CatalogConfig("wh", {})


def test_what_is_not_there_is_named(
    config: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "..")
    with pytest.raises(NotFoundError, match=r"'nope' is neither a catalog .*known: broken, prod"):
        resolve("nope", config)
    with pytest.raises(InvalidInputError, match="catalog 'broken' has no warehouse"):
        resolve("broken", config)
    with pytest.raises(InvalidInputError, match="no warehouse is configured"):
        resolve(None, config)
    with pytest.raises(NotFoundError, match="LAKECORE_CONFIG"):
        read_config({"LAKECORE_CONFIG": str(tmp_path / "missing.toml")})


@pytest.mark.parametrize("text", ["not toml", "catalogs = 3", "[catalogs]\nprod = 4"])
def test_a_file_that_is_not_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=r"bad\.toml: this is not a catalog file"):
        read_config({"LAKECORE_CONFIG": str(path)})
