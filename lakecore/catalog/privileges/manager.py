"""This module lets the user of a catalog in, tells what the user may do, and changes users and privileges."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from hashlib import sha256
from typing import TypeAlias

from lakecore.catalog.privileges.grants import ROOT, Grants, Privilege, Securable
from lakecore.catalog.privileges.options import ANONYMOUS, PASSWORD, USER
from lakecore.catalog.privileges.records import Grant, PrivilegeRecords
from lakecore.clock import Clock
from lakecore.data_class import dataclass
from lakecore.errors import AlreadyExistsError, InvalidInputError, NotFoundError, PrivilegeError
from lakecore.fs.file_io import FileIO

__all__ = ["Privileges"]

logger = logging.getLogger(__name__)

_NOT_ENABLED = (
    "this warehouse has no users and privileges; `lakecore init-file-based-privilege` begins with them"
)

_State: TypeAlias = tuple[object, Mapping[str, bytes], Mapping[str, Mapping[str, frozenset[str]]]]


@dataclass(frozen=True)
class Privileges:
    """These are the users and privileges of a warehouse, as one user sees them.

    Every question looks whether users and privileges have changed (some four reads), so a revoked privilege
    and another password hold for catalogs that are open. Without users and privileges everybody may do
    everything. Whoever can write the files of the warehouse is not bound: protect them by the rights of the
    storage.
    """

    records: PrivilegeRecords
    user: str
    password_hash: bytes = field(repr=False)
    enabled: bool = False
    """It tells whether the warehouse had users when the catalog was opened."""
    _cache: list[_State] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def open(cls, file_io: FileIO, warehouse: str, clock: Clock, options: Mapping[str, str]) -> Privileges:
        """Open those of a warehouse, and let the user of the catalog options in, by default Paimon's
        `anonymous`.

        Raises PrivilegeError for an unknown user, a wrong password, and a warehouse whose start with users
        was interrupted; InvalidInputError for a user of a warehouse without users.
        """
        records = PrivilegeRecords.of(file_io, warehouse, clock)
        manager = cls(records, USER.read(options), _hash(PASSWORD.read(options)))
        users, privileges = records.state()
        if users and privileges:
            enabled_manager = replace(manager, enabled=True)
            enabled_manager.grants()
            return enabled_manager
        if users or privileges:
            raise PrivilegeError(
                f"warehouse {warehouse} has only one of Paimon's tables of users and privileges: their "
                "start or end was interrupted; complete it with `lakecore init-file-based-privilege`"
            )
        for option in (USER, PASSWORD):
            if option.key in options:  # the value may be a secret
                raise InvalidInputError(f"catalog option {option.key}: {_NOT_ENABLED}; leave the option out")
        return manager

    def grants(self) -> Grants:
        """Return what the user may do. Raises PrivilegeError for a wrong password or an unknown user."""
        if not self.enabled:
            return Grants(ROOT, {})
        version = self.records.version()
        cached = next((one for one in self._cache if one[0] == version), None)
        if cached is None:
            cached = (version, self.records.passwords(), self.records.grants_by_user())
            self._cache[:] = [cached]
        _, passwords, grants = cached
        if not hmac.compare_digest(passwords.get(self.user, b""), self.password_hash):
            raise PrivilegeError(
                f"user {self.user} is not known in this warehouse, or the password is wrong; set the catalog "
                "options user and password"
            )
        return Grants(self.user, grants.get(self.user, {}))

    def check(self, privilege: Privilege, database: str | None = None, table: str | None = None) -> None:
        """Raise PrivilegeError for a privilege that the user does not have on the table, its database or the
        catalog.
        """
        if self.enabled:
            self.grants().check(privilege, database, table)

    def init(self, root_password: str) -> None:
        """Make the tables of users and privileges, with the users `root`, which gets this password, and
        `anonymous`, whose password everybody knows. Catalogs that are open already ask nobody.

        A start that was interrupted is completed. Raises AlreadyExistsError for a warehouse with privileges.
        """
        _check_text("password of root", root_password)
        if all(self.records.state()):
            raise AlreadyExistsError(
                "this warehouse has users and privileges; root changes them with create-privileged-user "
                "and grant-privilege-to-user"
            )
        self.records.users.create()
        self.records.set_passwords({ROOT: _hash(root_password), ANONYMOUS: _hash(ANONYMOUS)})
        if not self.records.privileges.create():
            raise AlreadyExistsError(
                "another process has initialized users and privileges; ask for root's password"
            )
        logger.info("users and privileges are in effect in %s", self.records.users.warehouse)

    def users(self) -> tuple[str, ...]:
        """Return all users, in order. Raises PrivilegeError unless the user has ADMIN."""
        self._check_admin()
        return tuple(sorted(self.records.passwords()))

    def list(self) -> tuple[Grant, ...]:
        """Return all privileges; those of the user itself unless it has ADMIN."""
        self._check_enabled()
        all_users = self.grants().has(Privilege.ADMIN)
        return tuple(one for one in self.records.grants() if all_users or one.user == self.user)

    def create_user(self, user: str, password: str) -> None:
        """Create a user without privileges. Raises AlreadyExistsError."""
        self._check_admin()
        _check_text("user", user)
        _check_text("password", password)
        if user in self.records.passwords():
            raise AlreadyExistsError(f"user {user} exists; drop it first, or choose another name")
        self.records.set_passwords({user: _hash(password)})
        logger.info("created user %s", user)

    def drop_user(self, user: str) -> None:
        """Remove a user and its privileges. Raises NotFoundError, and InvalidInputError for `root` and
        `anonymous`.
        """
        self._check_admin()
        if user in (ROOT, ANONYMOUS):
            raise InvalidInputError(f"user {user} cannot be dropped: every warehouse with privileges has it")
        self._check_user(user)
        self._remove(lambda one: one.user == user)  # first: another user of this name gets none of them
        self.records.remove_user(user)
        logger.info("dropped user %s", user)

    def grant(self, user: str, privilege: Privilege, on: Securable) -> None:
        """Give a privilege to a user. Raises NotFoundError for the user, InvalidInputError for a privilege
        that does not exist on such an object. Whether the object exists is for the catalog to say.
        """
        self._check_admin()
        on.check_grantable(privilege)
        self._check_user(user)
        self.records.change([Grant(user, on.identifier, privilege)], ())
        logger.info("granted %s on %s to %s", privilege, on, user)

    def revoke(self, user: str, privilege: Privilege, on: Securable) -> int:
        """Take a privilege on an object, and on all that is in it, from a user. It returns how many were
        taken.

        Java also takes those on objects whose names begin with this one. Raises NotFoundError where the user
        has none.
        """
        self._check_admin()
        self._check_user(user)
        count = self._remove(
            lambda one: one.user == user and one.privilege == privilege and _is_within(one, on.identifier)
        )
        if not count:
            raise NotFoundError(
                f"user {user} does not have the privilege {privilege} on {on}; it may have it on the "
                "database or the catalog (`lakecore privileges` lists all)"
            )
        logger.info("revoked %s on %s from %s", privilege, on, user)
        return count

    def object_renamed(self, identifier: str, new: str) -> None:
        """Move the privileges on a table to its new name. Java leaves them on the old name, too."""
        if self.enabled:
            grants_of_object = [one for one in self.records.grants() if one.identifier == identifier]
            self.records.change([replace(one, identifier=new) for one in grants_of_object], grants_of_object)

    def object_dropped(self, identifier: str) -> None:
        """Remove the privileges on an object that does not exist any more, and on all that was in it."""
        if self.enabled:
            self._remove(lambda one: _is_within(one, identifier))

    def _remove(self, chosen: Callable[[Grant], bool]) -> int:
        surplus = [one for one in self.records.grants() if chosen(one)]
        self.records.change((), surplus)
        return len(surplus)

    def _check_admin(self) -> None:
        self._check_enabled()
        self.check(Privilege.ADMIN)

    def _check_enabled(self) -> None:
        if not self.enabled:
            raise InvalidInputError(f"{_NOT_ENABLED}; then open the catalog again")

    def _check_user(self, user: str) -> None:
        if user == ROOT:
            raise InvalidInputError(f"user {ROOT} has every privilege; nothing is granted to it or revoked")
        if user not in self.records.passwords():
            raise NotFoundError(f"user {user} does not exist; create it with create-privileged-user")


def _is_within(one: Grant, identifier: str) -> bool:
    """Return whether a privilege is on the object or on something in it: a table of a database, a branch of a
    table, anything of the catalog.
    """
    return (
        not identifier
        or one.identifier == identifier
        or one.identifier.startswith((f"{identifier}.", f"{identifier}$"))
    )


def _hash(password: str) -> bytes:
    """Hash a password as Java does: SHA-256 of its UTF-8 bytes."""
    return sha256(password.encode("utf-8", "surrogatepass")).digest()


def _check_text(what: str, text: str) -> None:
    if not text or (what == "user" and (text != text.strip() or not text.isprintable())):
        raise InvalidInputError(
            f"the {what} must not be empty, and a name is printable without spaces around it"
        )
