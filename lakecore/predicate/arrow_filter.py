"""This module turns a filter of Arrow into a condition that prunes files, as far as that is certain.

Arrow does not tell the parts of an expression, only its text. What is not understood here is left out of the
condition, which then is true for more rows: whoever uses it applies the filter itself to the rows, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from lakecore.errors import InvalidInputError
from lakecore.predicate.literals import Literal, comparison
from lakecore.predicate.tree import And, Comparison, IsNotNull, Or, Predicate
from lakecore.types.datatypes import AtomicType, RowType, TypeRoot

__all__ = ["condition_of"]

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"\\]*")|(?P<number>-?\d+(?:\.\d+)?)(?=[\s)])|(?P<op>==|!=|<=|>=|<|>)"""
    r"""|(?P<paren>[()])|(?P<word>[A-Za-z_][A-Za-z0-9_]*))"""
)
_COMPARISONS = {
    "==": Comparison.EQ,
    "!=": Comparison.NE,
    "<": Comparison.LT,
    "<=": Comparison.LE,
    ">": Comparison.GT,
    ">=": Comparison.GE,
}
_INEXACT = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_MOST = 20_000
_DEPTH = 100


class _NotUnderstoodError(Exception):
    """The text has a part of a form that is not known."""


def condition_of(text: str, row_type: RowType) -> Predicate | None:
    """Return a condition that is true for every row for which the filter with this text is; None for none."""
    try:
        if len(text) > _MOST:
            return None
        parser = _Parser(_tokens(text), row_type)
        condition = parser.expression(0)
    except _NotUnderstoodError:
        return None
    return condition if parser.is_at_end else None


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _NotUnderstoodError
        tokens.append((str(match.lastgroup), match.group(str(match.lastgroup))))
        position = match.end()
    return tokens


class _Parser:
    """It reads `(a and b)`, `(a or b)`, `(column > 5)` and `is_valid(column)`; every pair is in
    parentheses.
    """

    def __init__(self, tokens: Sequence[tuple[str, str]], row_type: RowType) -> None:
        self._tokens = tokens
        self._fields = {field.name: field for field in row_type.fields}
        self._next = 0

    @property
    def is_at_end(self) -> bool:
        return self._next == len(self._tokens)

    def expression(self, depth: int) -> Predicate | None:
        """Return the condition of the next expression; None for one that says nothing here."""
        if depth > _DEPTH:
            raise _NotUnderstoodError
        if self._peek() == ("word", "is_valid"):
            self._next += 1
            self._expect("(")
            name = self._take("word")
            self._expect(")")
            return IsNotNull(name) if name in self._fields else None
        self._expect("(")
        if self._peek()[0] == "word" and self._peek() != ("word", "is_valid"):
            return self._comparison()
        left = self.expression(depth + 1)
        word = self._take("word")
        right = self.expression(depth + 1)
        self._expect(")")
        if word == "and":
            parts = tuple(one for one in (left, right) if one is not None)
            return And(parts) if len(parts) == 2 else next(iter(parts), None)
        if word == "or":
            return None if left is None or right is None else Or((left, right))
        raise _NotUnderstoodError

    def _comparison(self) -> Predicate | None:
        name, op = self._take("word"), self._take("op")
        kind, text = self._peek()
        self._next += 1
        self._expect(")")
        field = self._fields.get(name)
        if field is None or not isinstance(field.type, AtomicType) or field.type.root in _INEXACT:
            return None
        try:
            return comparison(field, _COMPARISONS[op], _literal(kind, text))
        except InvalidInputError:
            return None

    def _peek(self) -> tuple[str, str]:
        if self.is_at_end:
            raise _NotUnderstoodError
        return self._tokens[self._next]

    def _take(self, kind: str) -> str:
        token, text = self._peek()
        if token != kind:
            raise _NotUnderstoodError
        self._next += 1
        return text

    def _expect(self, paren: str) -> None:
        if self._take("paren") != paren:
            raise _NotUnderstoodError


def _literal(kind: str, text: str) -> Literal:
    if kind == "text":
        return text[1:-1]
    if kind == "number":
        return Decimal(text)
    if text in ("true", "false"):
        return text == "true"
    raise _NotUnderstoodError
