"""Names: what is one directory below the warehouse, and nothing else."""

from __future__ import annotations

import pytest

from lakecore.catalog.names import TableName, check_name
from lakecore.errors import InvalidInputError


def test_parts() -> None:
    assert TableName.parse("db.t") == TableName("db", "t")
    assert TableName.parse("db.a.b") == TableName("db", "a.b")
    assert TableName.parse("db.t$branch_b1") == TableName("db", "t", "b1")
    assert TableName.parse("db.t$files") == TableName("db", "t", system="files")
    assert TableName.parse("db.t$branch_b$files") == TableName("db", "t", "b", "files")
    for text in ("db.t$branch_b1", "db.t$files", "db.t$branch_b$files"):
        assert str(TableName.parse(text)) == text
    assert str(TableName.parse("größe.表")) == "größe.表"


@pytest.mark.parametrize(
    "text",
    [
        "", "t", "db.", ".t", "db..t", "../x.t", "db...", "db.../x", "db.a/b", "db.a\\b", "db./etc", "d/b.t",
        "db.t\0", "db.t\n", " db.t", "db.t ", "db..hidden", ".lakecore.t", "db." + "x" * 250, "db.t$branch_..",
        "db.t$branch_a/b", "db.$branch_a", "db.t$branch_", "db.t$", "db.t$branch_b$",
    ],
)  # fmt: skip
def test_names_that_climb_or_confuse_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        TableName.parse(text)


def test_the_message_names_the_kind_and_the_value() -> None:
    with pytest.raises(InvalidInputError, match=r"database '\.\.': a name must not begin with a dot"):
        check_name("..", "database")
