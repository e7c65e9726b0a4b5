"""A warehouse with Paimon's users and privileges: Java and lakecore let the same users do the same things, after each
of many changes that they make in turns.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.catalog.privileges.grants import Privilege, Securable
from lakecore.catalog.privileges.manager import Privileges
from lakecore.errors import LakeError, NotFoundError, PrivilegeError
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


def java_tries(both: Both, user: str, table: str) -> tuple[Callable[[], object], ...]:
    """What needs SELECT, INSERT and ALTER_TABLE on a table."""
    oracle, warehouse = both.oracle, both.java(user)
    change = '[{"op":"set","key":"snapshot.num-retained.max","value":"20"}]'
    return (
        lambda: oracle.read(warehouse, f"d.{table}"),
        lambda: oracle.write(warehouse, f"d.{table}", [{"a": 2}]),
        lambda: oracle.call("catalog", warehouse, "alter", f"d.{table}", change),
    )


def we_try(both: Both, user: str, table: str) -> tuple[Callable[[], object], ...]:
    catalog = both.ours(user)
    change = {"op": "set", "key": "snapshot.num-retained.max", "value": "20"}
    return (
        lambda: catalog.load_table(f"d.{table}").scan().to_arrow(),
        lambda: catalog.load_table(f"d.{table}").append(ROWS),
        lambda: catalog.alter_table(f"d.{table}", [change]),
    )


def java_may(both: Both, user: str, table: str) -> tuple[bool, ...]:
    return tuple(map(allowed, java_tries(both, user, table)))


def we_may(both: Both, user: str, table: str) -> tuple[bool, ...]:
    return tuple(map(allowed, we_try(both, user, table)))


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


SEQUENCES = int(os.environ.get("LAKECORE_PRIVILEGE_SEQUENCES", "1"))
FIRST = int(os.environ.get("LAKECORE_PRIVILEGE_FIRST", "0"))
STEPS = 14
TRIED = (
    Privilege.SELECT,
    Privilege.INSERT,
    Privilege.ALTER_TABLE,
    Privilege.CREATE_TABLE,
    Privilege.DROP_TABLE,
)
DEFINITION = {"columns": ["a INT"], "options": {}}
OPERATIONS = (*("grant",) * 4, "revoke", "create-user", "drop-user", *("drop", "create", "rename") * 3)
NEEDED = {
    "drop": Privilege.DROP_TABLE,
    "create": Privilege.CREATE_TABLE,
    "rename": Privilege.ALTER_TABLE,
}
Held = tuple[str, Privilege, Securable]


@dataclass
class Turns:
    """A warehouse whose users, privileges and tables Java and lakecore change in turns, and what is expected of it."""

    both: Both
    users: set[str] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)
    held: set[Held] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)

    @cached_property
    def privileges(self) -> Privileges:
        """The privileges as root sees them in one catalog, which is open all the time."""
        privileges = self.both.ours("root").privileges
        assert privileges is not None
        return privileges

    def has(self, user: str, privilege: Privilege, table: str | None) -> bool:
        reach = {Securable(), Securable("d")} | ({Securable("d", table)} if table is not None else set())
        return any((user, privilege, place) in self.held for place in reach)

    def step(self, chance: random.Random) -> str:
        """Do one random operation with one of the two, and see that it is allowed when it should be."""
        name, ours, user = chance.choice(OPERATIONS), chance.random() < 0.5, chance.choice(USERS)
        table = chance.choice(("t", "u"))
        able = sorted({one for one in self.users if self.has(one, NEEDED.get(name, Privilege.ADMIN), table)})
        if able and chance.random() < 0.8:
            user = chance.choice(able)
        if name == "create-user" and self.users != set(USERS):
            user = chance.choice(sorted(set(USERS) - self.users))
        done = getattr(self, f"_{name.replace('-', '_')}")(chance, user, table, ours)
        if done:
            self.done[f"{name} by {'lakecore' if ours else 'Java'}"] += 1
        return f"{name} by {'lakecore' if ours else 'Java'}: {user}, {table}, {done}"

    def check(self, chance: random.Random) -> None:
        """A user may do one thing with a table in Java and here, or in neither, which is what is expected."""
        user = chance.choice(USERS)
        if user not in self.users:
            with pytest.raises(PrivilegeError, match="is not known in this warehouse"):
                self.both.ours(user)
            for table in self.tables:  # Java asks for the user when it opens a table
                with pytest.raises(OracleError, match="not found, or password incorrect"):
                    self.both.oracle.read(self.both.java(user), f"d.{table}")
        elif self.tables:
            table, number = chance.choice(sorted(self.tables)), chance.randrange(3)
            expected = self.has(user, TRIED[number], table)
            ours, java = (tries(self.both, user, table)[number] for tries in (we_try, java_tries))
            assert (allowed(ours), allowed(java)) == (expected, expected), (user, TRIED[number], table)
        privileges = self.privileges
        assert set(privileges.users()) == self.users | {"root", "anonymous"}
        assert {(one.user, one.privilege, one.identifier) for one in privileges.list()} == {
            (one, privilege, on.identifier) for one, privilege, on in self.held
        }

    def _grant(self, chance: random.Random, user: str, table: str, ours: bool) -> bool:
        privilege = chance.choice(TRIED)
        places = [Securable(), Securable("d")]
        if table in self.tables and privilege is not Privilege.CREATE_TABLE:
            places.append(Securable("d", table))
        on = chance.choice(places)
        done = self.both.change("grant", user, privilege, on, ours=ours)
        assert done is (user in self.users)
        if done:
            self.held.add((user, privilege, on))
        return done

    def _revoke(self, chance: random.Random, user: str, table: str, ours: bool) -> bool:
        if not self.held:
            return False
        user, privilege, on = chance.choice(sorted(self.held, key=str))
        assert self.both.change("revoke", user, privilege, on, ours=ours)
        within = on.identifier
        self.held = {
            one
            for one in self.held
            if one[:2] != (user, privilege) or not one[2].identifier.startswith(within)
        }
        return True

    def _create_user(self, chance: random.Random, user: str, table: str, ours: bool) -> bool:
        done = self._as_root("create-user", user, f"of-{user}", ours=ours)
        assert done is (user not in self.users)
        self.users.add(user)
        return done

    def _drop_user(self, chance: random.Random, user: str, table: str, ours: bool) -> bool:
        if user not in self.users and not ours:
            return False  # Java says nothing to this
        done = self._as_root("drop-user", user, ours=ours)
        assert done is (user in self.users)
        self.users.discard(user)
        self.held = {one for one in self.held if one[0] != user}
        return done

    def _as_root(self, name: str, *words: str, ours: bool) -> bool:
        try:
            if ours:
                getattr(self.privileges, name.replace("-", "_"))(*words)
            else:
                self.both.oracle.call("catalog", self.both.java("root"), name, *words)
        except (LakeError, OracleError):
            return False
        return True

    def _create(self, chance: random.Random, user: str, table: str, ours: bool) -> bool:
        if table in self.tables or user not in self.users:
            return False
        java = ("catalog", self.both.java(user), "create", f"d.{table}", json.dumps(DEFINITION))
        done = self._tried(
            lambda: self.both.ours(user).create_table(f"d.{table}", DEFINITION), java, ours=ours
        )
        assert done is self.has(user, Privilege.CREATE_TABLE, None)
        if done:
            self.tables.add(table)
        return done

    def _drop(self, chance: random.Random, user: str, table: str, ours: bool) -> bool:
        if table not in self.tables or user not in self.users:
            return False
        java = ("catalog", self.both.java(user), "drop", f"d.{table}")
        done = self._tried(lambda: self.both.ours(user).drop_table(f"d.{table}"), java, ours=ours)
        assert done is self.has(user, Privilege.DROP_TABLE, table)
        if done:
            self.tables.remove(table)
            self.held = {one for one in self.held if one[2] != Securable("d", table)}
        return done

    def _rename(self, chance: random.Random, user: str, table: str, ours: bool) -> bool:
        new = "u" if table == "t" else "t"
        if table not in self.tables or new in self.tables or user not in self.users:
            return False
        java = ("catalog", self.both.java(user), "rename", f"d.{table}", f"d.{new}")
        done = self._tried(
            lambda: self.both.ours(user).rename_table(f"d.{table}", f"d.{new}"), java, ours=ours
        )
        assert done is self.has(user, Privilege.ALTER_TABLE, table)
        if done:
            self.tables = self.tables - {table} | {new}
            moved = {one for one in self.held if one[2] == Securable("d", table)}
            self.held |= {(*one[:2], Securable("d", new)) for one in moved}
            self.held -= moved if ours else set()  # Java leaves them on the old name, too
        return done

    def _tried(self, call: Callable[[], object], words: tuple[str, ...], *, ours: bool) -> bool:
        return allowed(call if ours else lambda: self.both.oracle.call(*words))


@pytest.mark.parametrize("version", ["1.4.2", "2.0.0"])
def test_users_privileges_and_tables_in_turns(
    oracles: dict[str, Oracle], tmp_path: Path, version: str
) -> None:
    """LAKECORE_PRIVILEGE_SEQUENCES: how many random sequences, from the number LAKECORE_PRIVILEGE_FIRST on."""
    oracle, total = oracles[version], Counter[str]()
    for number in range(FIRST, FIRST + SEQUENCES):
        chance, path = random.Random(f"privileges {number}"), tmp_path / str(number)
        turns, done = Turns(Both(oracle, path)), list[str]()
        path.mkdir()
        oracle.create(path, "d.t", DEFINITION)
        turns.tables.add("t")
        if number % 2:
            oracle.call("init-privileges", path, "of-root")
        else:
            privileges = load_catalog(path).privileges  # type: ignore[attr-defined]
            privileges.init("of-root")
        for user in USERS:
            turns._create_user(chance, user, "t", ours=chance.random() < 0.5)
            turns._grant(chance, user, "t", ours=chance.random() < 0.5)
            turns._grant(chance, user, "t", ours=chance.random() < 0.5)
        for _ in range(STEPS):
            try:
                done.append(turns.step(chance))
                turns.check(chance)
            except (AssertionError, LakeError, OracleError) as err:
                raise AssertionError(f"sequence {number} after {done}: {err}") from err
        total += turns.done
        shutil.rmtree(path)
    succeeded = dict(sorted(total.items()))
    print(
        f"privileges {version}: {SEQUENCES} sequences from {FIRST} on of {STEPS} operations, of which succeeded: {succeeded}"
    )
    assert sum(total.values()) > 3 * SEQUENCES
