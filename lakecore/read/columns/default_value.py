"""This module fills in the default values of columns, which writers store where a row has no value."""

from __future__ import annotations

import pyarrow as pa

from lakecore.errors import InvalidInputError, LakeError, UnsupportedError
from lakecore.read.columns.cast import cast_atomic
from lakecore.row.values import values_array
from lakecore.types.datatypes import MAX_LENGTH, AtomicType, DataField, TypeRoot
from lakecore.types.sql import type_text
from lakecore.types.text import parse_value

__all__ = ["check_default", "default_value"]

_STRING = AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)


def default_value(field: DataField) -> pa.Scalar | None:
    """Return the default of `field` as a value of its type; None when it has none.

    Spec: quotes around the whole text do not count, and the text is cast as a text column would be (an
    instant: in UTC unless it names a zone). Raises InvalidInputError for text that is no value of the type,
    UnsupportedError for types without text.
    """
    if field.default_value is None:
        return None
    text = field.default_value
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    try:
        if not isinstance(field.type, AtomicType):
            raise UnsupportedError("this release has no default values for nested types")
        if field.type.root is TypeRoot.TIMESTAMP_LTZ:
            return values_array([parse_value(text, field.type)], field.type)[0]
        return cast_atomic(pa.array([text], pa.string()), _STRING, field.type)[0]
    except (LakeError, pa.ArrowInvalid, ValueError) as err:
        kind = type(err) if isinstance(err, InvalidInputError) else InvalidInputError
        raise kind(
            f"column {field.name}: default value {field.default_value!r} for {type_text(field.type)}: {err}"
        ) from err


def check_default(field: DataField) -> None:
    """Raise what `default_value` raises."""
    default_value(field)
