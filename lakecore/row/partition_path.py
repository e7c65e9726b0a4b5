"""This module writes partitions as text: directory names of data files (format rule), and the
`dt=a,hh=b;dt=c` of requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lakecore.errors import InvalidInputError, UnsupportedError
from lakecore.types.datatypes import AtomicType, DataField, DataType, RowType, TypeRoot
from lakecore.types.float_text import java_float_text
from lakecore.types.text import parse_value, timestamp_text, value_text

__all__ = [
    "DEFAULT_NAME",
    "internal_text",
    "parse_partitions",
    "partition_path",
    "partition_spec",
    "partition_text",
    "spec_path",
]

DEFAULT_NAME = "__DEFAULT_PARTITION__"

_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")
_JAVA_NOT_BLANK = "\u0085\u00a0\u2007\u202f"
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY, TypeRoot.BLOB)


def partition_path(
    values: Sequence[Any], partition_type: RowType, default_name: str, legacy_name: bool
) -> str:
    """Return the directory of a partition, as in `dt=19723/hh=2`, without a trailing slash; it is empty for
    an unpartitioned table.

    Null, empty and blank values share the directory `default_name`. With `legacy_name` the internal value is
    named (DATE as a day number), else its cast to string.
    """
    return spec_path(partition_spec(values, partition_type, default_name, legacy_name))


def spec_path(spec: Mapping[str, str]) -> str:
    """Return the directory of a partition from its texts by column."""
    return "/".join(f"{_escape(name)}={_escape(text)}" for name, text in spec.items())


def partition_spec(
    values: Sequence[Any], partition_type: RowType, default_name: str, legacy_name: bool
) -> dict[str, str]:
    """Return the texts of a partition by column, as `partition_path` has them but not escaped. Catalogs that
    list partitions want these.
    """
    return {
        field.name: _directory_text(value, field.type, default_name, legacy_name)
        for field, value in zip(partition_type.fields, values, strict=True)
    }


def partition_text(values: Sequence[Any], partition_type: RowType) -> str:
    """Return a partition for logs and reports, as in `dt=2024-01-01,hh=2`; null is the default name."""
    return ",".join(
        f"{field.name}={DEFAULT_NAME if value is None else value_text(value, field.type)}"
        for field, value in zip(partition_type.fields, values, strict=True)
    )


def parse_partitions(
    text: str, partition_type: RowType, default_name: str = DEFAULT_NAME
) -> tuple[dict[str, Any], ...]:
    """Parse `dt=a,hh=b;dt=c` as ({"dt": "a", "hh": "b"}, {"dt": "c"}); `default_name` stands for null.

    Raises InvalidInputError naming the part that is not `key=value` of a partition key.
    """
    fields = {field.name: field for field in partition_type.fields}
    if not fields:
        raise InvalidInputError(f"partitions {text!r}: the table is not partitioned; leave them out")
    specs = [part for part in text.split(";") if part.strip()]
    if not specs:
        raise InvalidInputError(
            f"partitions {text!r}: the text is empty; write for example dt=2024-01-01,hh=2;dt=2024-01-02"
        )
    return tuple(_parse_one(spec, fields, default_name) for spec in specs)


def _parse_one(spec: str, fields: Mapping[str, DataField], default_name: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for part in spec.split(","):
        key, equals, value = part.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or key not in fields:
            raise InvalidInputError(
                f"partition {part.strip()!r}: write key=value, where the key is one of {', '.join(fields)}"
            )
        if key in out:
            raise InvalidInputError(
                f"partition {spec.strip()!r}: {key} is given twice; separate partitions by a semicolon"
            )
        out[key] = None if value == default_name else parse_value(value, fields[key].type)
    return out


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _directory_text(value: Any, data_type: DataType, default_name: str, legacy_name: bool) -> str:
    if value is None:
        return default_name
    text = internal_text(value, data_type) if legacy_name else value_text(value, data_type)
    return default_name if _is_blank(text) else text


def _is_blank(text: str) -> bool:
    """Return whether the text is empty or white space as Java defines it: no-break spaces count as text."""
    return not text or (text.isspace() and not any(char in _JAVA_NOT_BLANK for char in text))


def internal_text(value: Any, data_type: DataType) -> str:
    """Return the text of an internal value in Java: a DATE is a number of days, and a TIMESTAMP has a `T`.
    Raises UnsupportedError for bytes, whose text is their place in memory.
    """
    root = data_type.root if isinstance(data_type, AtomicType) else None
    if root in (TypeRoot.DATE, TypeRoot.TIME):
        return str(value)
    if root in _TIMESTAMPS:
        text = timestamp_text(value, separator="T")
        return text.removesuffix(":00") if "." not in text else text
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return java_float_text(value, single=root is TypeRoot.FLOAT)
    if root in _BYTES:
        raise UnsupportedError(
            f"directory of a partition by {data_type}: set partition.legacy-name=false when you create the "
            "table"
        )
    return value_text(value, data_type)
