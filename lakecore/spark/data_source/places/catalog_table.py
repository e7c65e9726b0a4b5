"""This module keeps the options of tables of Spark's own catalog (`CREATE TABLE … USING lakecore`).

Spark tells a source in Python the options when the table is created, and nothing but the columns when it is
read. So the options are stored with the first column, in its metadata, which Spark keeps in its catalog.
Nothing is written to such a table: where Spark inserts rows of one into another, the columns may come with
the metadata of the one that is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakecore.errors import InvalidOptionError, is_secret, mask_secrets

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["created_options", "options_of_schema", "with_options"]

_PROVIDER = "provider"
"""Spark gives this property where a table of its catalog is created."""
_OPTION = "option."
"""What OPTIONS of the statement has comes with this prefix, too, and TBLPROPERTIES without it."""
_METADATA = "lakecore.options"


def created_options(properties: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table that is created; None where `properties` are the options of a read or a
    write. Raises InvalidOptionError for an option that is a secret.
    """
    if _PROVIDER not in properties:
        return None
    options = {key[len(_OPTION) :]: value for key, value in properties.items() if key.startswith(_OPTION)}
    for key, value in options.items():
        if is_secret(key) or mask_secrets(value) != value:
            raise InvalidOptionError(
                f"option {key}: Spark stores the options of a table in its catalog, where others may read "
                "this secret; configure a catalog and give its name in the option catalog"
            )
    return options


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the columns with the options of their table."""
    from pyspark.sql.types import StructField, StructType

    first, *others = schema.fields
    metadata = {**first.metadata, _METADATA: json.dumps(dict(options), sort_keys=True)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def options_of_schema(schema: StructType) -> dict[str, str]:
    """Return the options that are stored with the columns of a read; none where there are none."""
    text = schema.fields[0].metadata.get(_METADATA) if schema.fields else None
    return {} if text is None else dict(json.loads(text))
