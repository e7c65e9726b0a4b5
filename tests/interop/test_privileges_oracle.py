"""A warehouse with Paimon's users and privileges: Java and lakecore let the same users do the same things, after each
of many changes that they make in turns.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.catalog.privileges.grants import Privilege, Securable
from lakecore.errors import NotFoundError, PrivilegeError
from tests.support.oracle import Oracle, OracleError

pytestmark = pytest.mark.slow

USERS = ("ann", "bob")
OBJECTS = (Securable(), Securable("d"), Securable("d", "t"), Securable("d", "u"))
ROWS = pa.table({"a": pa.array([1], pa.int32())})


@dataclass(frozen=True)
class Both:
    """One warehouse with privileges, as a user opens it with Java and here."""

    oracle: Oracle
    path: Path

    def java(self, user: str) -> str:
        return f"{self.path}|user={user}|password=of-{user}"

    def ours(self, user: str) -> FilesystemCatalog:
        catalog = load_catalog(self.path, user=user, password=f"of-{user}")
        assert isinstance(catalog, FilesystemCatalog)
        return catalog

    def change(self, name: str, user: str, privilege: Privilege, on: Securable, *, ours: bool) -> bool:
        """Grant or revoke; whether it was done."""
        place = [part for part in (on.database, on.table) if part is not None]
        try:
            if ours:
                privileges = self.ours("root").privileges
                assert privileges is not None
                getattr(privileges, name)(user, privilege, on)
            else:
                self.oracle.call("catalog", self.java("root"), name, user, privilege, *place)
        except (NotFoundError, OracleError):
            return False
        return True


def allowed(call: Callable[[], object]) -> bool:
    """Whether the privileges let the call through; for whatever else it fails, the test fails."""
    try:
        call()
    except (PrivilegeError, OracleError) as err:
        if isinstance(err, OracleError) and "NoPrivilegeException" not in str(err):
            raise
        return False
    return True


def java_may(both: Both, user: str, table: str) -> tuple[bool, bool, bool]:
    oracle, warehouse = both.oracle, both.java(user)
    change = '[{"op":"set","key":"snapshot.num-retained.max","value":"20"}]'
    return (
        allowed(lambda: oracle.read(warehouse, f"d.{table}")),
        allowed(lambda: oracle.write(warehouse, f"d.{table}", [{"a": 2}])),
        allowed(lambda: oracle.call("catalog", warehouse, "alter", f"d.{table}", change)),
    )


def we_may(both: Both, user: str, table: str) -> tuple[bool, bool, bool]:
    catalog = both.ours(user)
    change = {"op": "set", "key": "snapshot.num-retained.max", "value": "20"}
    return (
        allowed(lambda: catalog.load_table(f"d.{table}").scan().to_arrow()),
        allowed(lambda: catalog.load_table(f"d.{table}").append(ROWS)),
        allowed(lambda: catalog.alter_table(f"d.{table}", [change])),
    )


@pytest.mark.parametrize(("version", "begins"), [("1.4.2", "java"), ("2.0.0", "lakecore")])
def test_users_may_the_same_with_java_and_here(
    oracles: dict[str, Oracle], tmp_path: Path, version: str, begins: str
) -> None:
    oracle = oracles[version]
    both = Both(oracle, tmp_path)
    for table in ("t", "u"):
        oracle.create(tmp_path, f"d.{table}", {"columns": ["a INT"], "options": {}})
    if begins == "java":
        oracle.call("init-privileges", tmp_path, "of-root")
    else:
        catalog = load_catalog(tmp_path)
        assert isinstance(catalog, FilesystemCatalog)
        privileges = catalog.privileges
        assert privileges is not None
        privileges.init("of-root")
    for user, ours in zip(USERS, (True, False), strict=True):
        if ours:
            privileges = both.ours("root").privileges
            assert privileges is not None
            privileges.create_user(user, f"of-{user}")
        else:
            oracle.call("catalog", both.java("root"), "create-user", user, f"of-{user}")
    chance = random.Random(f"{version} {begins}")
    held: set[tuple[str, Privilege, Securable]] = set()
    tried = [Privilege.SELECT, Privilege.INSERT, Privilege.ALTER_TABLE]
    for step in range(8):
        user, on = USERS[step % 2], chance.choice(OBJECTS)
        privilege = chance.choice(tried)
        mine = [one for one in sorted(held, key=str) if one[0] == user]
        if mine and chance.random() < 0.4:
            user, privilege, on = chance.choice(mine)
            assert both.change("revoke", user, privilege, on, ours=chance.random() < 0.5)
            within = on.identifier
            held = {
                one
                for one in held
                if not (one[:2] == (user, privilege) and one[2].identifier.startswith(within))
            }
        else:
            assert both.change("grant", user, privilege, on, ours=chance.random() < 0.5)
            held.add((user, privilege, on))
        for table in ("t", "u"):
            reach = {Securable(), Securable("d"), Securable("d", table)}
            expected = tuple(any((user, one, place) in held for place in reach) for one in tried)
            assert we_may(both, user, table) == java_may(both, user, table) == expected, (step, held)
    privileges = both.ours("root").privileges
    assert privileges is not None
    assert {(one.user, one.privilege, one.identifier) for one in privileges.list()} == {
        (user, privilege, on.identifier) for user, privilege, on in held
    }


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_a_stranger_opens_it_neither_with_java_nor_here(
    oracles: dict[str, Oracle], tmp_path: Path, version: str
) -> None:
    oracle = oracles[version]
    oracle.create(tmp_path, "d.t", {"columns": ["a INT"], "options": {}})
    assert load_catalog(tmp_path).list_tables("d") == ["t"]
    oracle.call("init-privileges", tmp_path, "secret-of-root")

    for user, password in (("root", "of-somebody"), ("nobody", "secret-of-root")):
        with pytest.raises(OracleError, match="not found, or password incorrect"):
            oracle.read(f"{tmp_path}|user={user}|password={password}", "d.t")
        with pytest.raises(PrivilegeError, match="is not known in this warehouse") as refused:
            load_catalog(tmp_path, user=user, password=password)
        assert password not in str(refused.value)

    with pytest.raises(OracleError, match=r"NoPrivilegeException.*anonymous"):
        oracle.call("drop", tmp_path, "d.t")
    stranger = load_catalog(tmp_path)
    for call in (
        lambda: stranger.drop_table("d.t"),
        lambda: stranger.load_table("d.t").scan().to_arrow(),
        lambda: stranger.load_table("d.t").append(ROWS),
        lambda: stranger.load_table("d.t$files"),
        lambda: stranger.create_table("d.u", {"columns": ["a INT"]}),
        lambda: stranger.create_database("e"),
        lambda: stranger.rename_table("d.t", "d.u"),
    ):
        with pytest.raises(PrivilegeError, match="anonymous"):
            call()
    with pytest.raises(PrivilegeError):
        stranger.load_table("d.t").latest_snapshot()
    assert load_catalog(tmp_path, user="root", password="secret-of-root").list_tables("d") == ["t"]
