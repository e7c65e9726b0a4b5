"""A column with files of its own does not come into an ordinary file that did not have it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from lakecore.errors import ProofError
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.context import ProofContext
from lakecore.verify.proof.joined import check_columns
from tests.support.builders import data_file, table_schema

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def stored(name: str, columns: tuple[str, ...] | None) -> StoredFile:
    return StoredFile(name, replace(data_file(name), schema_id=0, write_cols=columns))


def check(inputs: list[tuple[str, ...] | None], made: tuple[str, ...] | None, **options: str) -> None:
    raw = OPTIONS | {key.replace("_", "-"): value for key, value in options.items()}
    schema = table_schema("k INT, v INT, b BLOB", primary_keys=(), options=raw)
    context = ProofContext(file_io=cast(Any, None), shape=cast(Any, None), schemas={0: schema})
    files = [stored(f"in-{number}", columns) for number, columns in enumerate(inputs)]
    check_columns(context, "unit 7", files, [stored("out", made)])


def test_ordinary_columns_may_be_new() -> None:
    check([("k",), ("k",)], ("k", "v"))


@pytest.mark.parametrize("made", [None, ("k", "v", "b")])
def test_a_blob_column_may_not(made: tuple[str, ...] | None) -> None:
    with pytest.raises(ProofError, match="has column b, which no input has") as caught:
        check([("k",), ("k", "v")], made)
    assert caught.value.unit == "unit 7"


def test_one_that_an_input_has_stays() -> None:
    check([("k",), ("b",)], None)


def test_references_are_ordinary() -> None:
    check([("k",)], None, blob_descriptor_field="b")
