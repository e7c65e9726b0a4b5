"""This module has what MySQL and MariaDB need: exact names, in keys that InnoDB can store.

With utf8mb4 the four columns of the key of `paimon_table_properties` have up to 4,080 bytes, and InnoDB
allows 3,072, so that Java cannot create the table. The usual collations take `T` and `t` as equal. So
lakecore creates the tables with utf8mb3_bin, and Java uses the tables that exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lakecore.catalog.jdbc.connection import JdbcConnection
from lakecore.errors import InvalidInputError, UnsupportedError

__all__ = ["CHARACTER_SET", "check_characters", "check_collations"]

CHARACTER_SET = "CHARACTER SET utf8mb3 COLLATE utf8mb3_bin"
_EXACT = re.compile(r"utf8(mb3|mb4)?_\w*bin")
_KEYS = ("catalog_key", "database_name", "table_name", "view_name", "property_key")
_COLLATIONS = """SELECT table_name, collation_name FROM information_schema.columns
    WHERE table_schema = DATABASE() AND column_name IN :keys AND table_name IN
    ('paimon_tables', 'paimon_database_properties', 'paimon_table_properties', 'paimon_views')
    ORDER BY table_name, column_name"""


def check_collations(connection: JdbcConnection) -> None:
    """Raise UnsupportedError for tables, created by Java, whose names are not compared exactly. It costs one
    query.
    """
    from sqlalchemy import bindparam, text

    query = text(_COLLATIONS).bindparams(bindparam("keys", expanding=True))
    with connection.transaction("open the catalog") as database:
        rows = list(database.execute(query, {"keys": _KEYS}))
    for table, collation in rows:
        if not _EXACT.fullmatch(collation):
            raise UnsupportedError(
                f"table {table} of the database {connection.place} has names with the collation {collation}, "
                "which takes some different names, such as 'T' and 't', as equal; stop the writers, and "
                f"convert each table of the catalog with ALTER TABLE {table} CONVERT TO {CHARACTER_SET}"
            )


def check_characters(connection: JdbcConnection, name: str, texts: Iterable[str]) -> None:
    """Raise InvalidInputError for texts that the columns of the catalog cannot store, which no other database
    than MySQL has. `name` is in the message.
    """
    for text in texts:
        if not connection.can_store(text):
            raise InvalidInputError(
                f"{name!r}: the database of the catalog cannot store {text[:40]!r}, because MySQL's "
                "utf8mb3 has no characters of four bytes, such as emojis; leave them out"
            )
