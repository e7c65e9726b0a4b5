"""A warehouse where Java Paimon obeys users and privileges: a stranger opens it neither with Java nor here."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import UnsupportedError
from tests.support.oracle import Oracle, OracleError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_a_warehouse_with_java_s_privileges_is_not_opened(
    oracles: dict[str, Oracle], tmp_path: Path, version: str
) -> None:
    oracle = oracles[version]
    oracle.create(tmp_path, "d.t", {"columns": ["a INT"], "options": {}})
    assert load_catalog(tmp_path).list_tables("d") == ["t"]
    oracle.call("init-privileges", tmp_path, "secret-of-root")

    with pytest.raises(OracleError, match=r"NoPrivilegeException.*anonymous"):
        oracle.call("drop", tmp_path, "d.t")
    with pytest.raises(UnsupportedError, match="users and privileges"):
        load_catalog(tmp_path)
