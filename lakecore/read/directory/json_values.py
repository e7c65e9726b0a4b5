"""This module makes the values of a row of a JSON line, by the rules of Paimon's Java reader. It is pure.

Spec: an atomic value is the text of the JSON value, parsed as its type; a number with a point or an exponent
is a 64-bit one, whose text is Java's. What follows the first JSON value of a line is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from lakecore.errors import InvalidInputError
from lakecore.read.directory.text_values import text_decoder
from lakecore.types.datatypes import ArrayType, AtomicType, DataField, DataType, MapType, RowType, VectorType
from lakecore.types.float_text import java_float_text

__all__ = ["JsonRows"]

_FAILURES = (ValueError, ArithmeticError, InvalidInputError, RecursionError)
_SPACES = " \t\r\n"

Convert: TypeAlias = Callable[[Any], Any]


class JsonRows:
    """It converts JSON lines to the values of `fields`, in their order."""

    __slots__ = ("_converts", "_decoder", "_ignores", "_names")

    def __init__(self, fields: Sequence[DataField], *, ignores_errors: bool) -> None:
        self._ignores = ignores_errors
        self._names = tuple(field.name for field in fields)
        self._converts = tuple(self._tolerant(self._of(field.type)) for field in fields)
        self._decoder = json.JSONDecoder(parse_constant=_no_constant)

    def values(self, line: str) -> tuple[Any, ...] | None:
        """Return the values, None for a line that is left out because it is no JSON object.

        Raises ValueError, ArithmeticError, InvalidInputError or RecursionError saying what is wrong, unless
        errors are ignored.
        """
        try:
            raw, _ = self._decoder.raw_decode(line.lstrip(_SPACES))
            if raw is None:
                return None
            if not isinstance(raw, dict):
                raise ValueError("it is not a JSON object")
        except _FAILURES:
            if self._ignores:
                return None
            raise
        pairs = zip(self._names, self._converts, strict=True)
        return tuple(None if (one := raw.get(name)) is None else convert(one) for name, convert in pairs)

    def _tolerant(self, convert: Convert) -> Convert:
        if not self._ignores:
            return convert

        def attempt(raw: Any) -> Any:
            try:
                return convert(raw)
            except _FAILURES:
                return None

        return attempt

    def _of(self, data_type: DataType) -> Convert:
        match data_type:
            case AtomicType():
                parse = text_decoder(data_type)
                return lambda raw: parse(_text(raw))
            case ArrayType(element=element) | VectorType(element=element):
                return self._list(element)
            case MapType(key=key, value=value):
                return self._map(key, value)
            case RowType(fields=fields):
                return self._row(fields)
        raise ValueError(f"values of {data_type} have no JSON")

    def _list(self, element: DataType) -> Convert:
        convert = self._tolerant(self._of(element))

        def to_list(raw: Any) -> list[Any]:
            if not isinstance(raw, list):
                raise ValueError("it is not a JSON array")
            return [None if one is None else convert(one) for one in raw]

        return to_list

    def _map(self, key: DataType, value: DataType) -> Convert:
        to_key, to_value = self._tolerant(self._of(key)), self._tolerant(self._of(value))

        def to_pairs(raw: Any) -> list[tuple[Any, Any]]:
            if not isinstance(raw, dict):
                raise ValueError("it is not a JSON object")
            pairs = {}
            for text, one in raw.items():
                converted = to_key(text)
                if converted is not None:
                    pairs[converted] = None if one is None else to_value(one)
            return list(pairs.items())

        return to_pairs

    def _row(self, fields: Sequence[DataField]) -> Convert:
        converts = [(field.name, self._tolerant(self._of(field.type))) for field in fields]

        def to_row(raw: Any) -> tuple[Any, ...]:
            if not isinstance(raw, dict):
                raise ValueError("it is not a JSON object")
            return tuple(
                None if (one := raw.get(name)) is None else convert(one) for name, convert in converts
            )

        return to_row


def _text(raw: Any) -> str:
    """Return the text of a JSON value; arrays and objects have an empty one."""
    match raw:
        case str():
            return raw
        case bool():
            return "true" if raw else "false"
        case float():
            return java_float_text(raw, single=False)
        case int():
            return str(raw)
    return ""


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON value")
