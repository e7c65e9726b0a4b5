"""Who is warned that rows wait for a compaction, or that nobody is told of them."""

from __future__ import annotations

import pytest

from lakecore.metadata.callbacks import callback_warnings
from lakecore.metadata.options import TableOptions
from lakecore.metadata.visibility import visibility_warnings
from tests.support.builders import table_schema


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ("write-only=true", None),
        ("deletion-vectors.enabled=true", None),
        ("write-only=true;deletion-vectors.enabled=true", "deletion-vectors.enabled"),
        ("write-only=true;deletion-vectors.enabled=true;deletion-vectors.merge-on-read=true", None),
        ("write-only=true;merge-engine=first-row", "first-row"),
        ("merge-engine=first-row", None),
        ("bucket=-2", None),
        ("bucket=-2;postpone.batch-write-fixed-bucket=false", "no bucket"),
    ],
)
def test_tables_that_read_as_empty_until_compacted_are_told(options: str, hint: str | None) -> None:
    schema = table_schema(options=dict(option.split("=", 1) for option in options.split(";")))
    found = visibility_warnings(schema, TableOptions.from_schema(schema))
    assert len(found) == (hint is not None)
    assert all(str(hint) in warning and "compact" in warning for warning in found)
    keyless = table_schema(
        primary_keys=(), options={"write-only": "true", "deletion-vectors.enabled": "true"}
    )
    assert visibility_warnings(keyless, TableOptions.from_schema(keyless)) == ()


def test_java_classes_that_are_not_called_are_named() -> None:
    raw = {"commit.callbacks": "a.B", "tag.callbacks": " ", "metadata.iceberg.storage": "table-location"}
    assert [warning.split(":")[0] for warning in callback_warnings(raw)] == [
        "commit.callbacks=a.B",
        "metadata.iceberg.storage=table-location",
    ]
    assert callback_warnings({"metadata.iceberg.storage": "disabled"}) == ()
