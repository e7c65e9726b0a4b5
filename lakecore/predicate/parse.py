"""This module parses filters: `a = 1 and b in ('x', 'y') or not (c is null) and d between 1 and 5 and e like
'x%'`.

`m['key']` is the value under a key of a map column, null without it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError
from lakecore.predicate.literals import Literal, comparison, membership
from lakecore.predicate.tree import (
    And,
    Compare,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Like,
    Or,
    Predicate,
    StartsWith,
    at_key,
    negated,
)
from lakecore.types.datatypes import AtomicType, DataField, MapType, RowType, TypeRoot

__all__ = ["parse_where"]

_MAX_DEPTH = 100
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?(?![\w.]))
      | (?P<bytes>0[xX](?:[0-9a-fA-F]{2})*\b | [xX]'(?:[0-9a-fA-F]{2})*')
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)+` | "(?:[^"]|"")+")
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|\[|\]|,)
    )""",
    re.VERBOSE,
)
_SIGNS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_TYPED = ("DATE", "TIME", "TIMESTAMP")


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """Return the upper-case keyword or sign; empty for literals and quoted names."""
        return self.text.upper() if self.kind in ("word", "sign") else ""


@dataclass(frozen=True, slots=True)
class _Key:
    """The key of a map whose values are meant; none: the column itself."""

    value: tuple[Any, ...] = ()

    def of(self, predicate: Predicate) -> Predicate:
        return at_key(predicate, self.value[0]) if self.value else predicate


def parse_where(text: str, row_type: RowType) -> Predicate:
    """Return the predicate of `text` over columns of `row_type`; names may stand in backticks or double
    quotes.

    Raises InvalidInputError naming the place, or the column and the literal that do not fit.
    """
    tokens = _tokens(text)
    parser = _Parser(text, tokens, row_type)
    predicate = parser.disjunction(0)
    parser.finish()
    return predicate


def _tokens(text: str) -> list[_Token]:
    out: list[_Token] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(text, at)
        out.append(_Token(str(match.lastgroup), match[0].strip(), match.start()))
        at = match.end()
    return out


def _unreadable(text: str, at: int) -> InvalidInputError:
    problem = f"filter {text!r}: cannot read {text[at:].strip()[:20]!r}"
    if text[at:].lstrip().startswith("."):
        problem += (
            ": a condition is on a column or on a key of a map, not on a field of a ROW; read the column"
        )
    return InvalidInputError(problem)


class _Parser:
    """A parser by recursive descent, which reads the tokens of one filter."""

    def __init__(self, text: str, tokens: list[_Token], row_type: RowType) -> None:
        self._text = text
        self._tokens = tokens
        self._row_type = row_type
        self._next = 0

    def _fail(self, problem: str) -> InvalidInputError:
        if self._next < len(self._tokens):
            return InvalidInputError(
                f"filter {self._text!r}: {problem} at {self._text[self._peek().at :].strip()[:20]!r}"
            )
        return InvalidInputError(f"filter {self._text!r}: {problem} at its end")

    def _peek(self) -> _Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else _Token("end", "", 0)

    def _take(self, *words: str) -> bool:
        """Step over these keywords or signs if they come next, all of them."""
        ahead = [token.word for token in self._tokens[self._next : self._next + len(words)]]
        if ahead != list(words):
            return False
        self._next += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._fail(f"{word} is missing")

    def finish(self) -> None:
        if self._next < len(self._tokens):
            raise self._fail("AND or OR is missing")

    def disjunction(self, depth: int) -> Predicate:
        parts = self._chain("OR", lambda: self._conjunction(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _conjunction(self, depth: int) -> Predicate:
        parts = self._chain("AND", lambda: self._negation(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _chain(self, word: str, parse: Callable[[], Predicate]) -> list[Predicate]:
        parts = [parse()]
        while self._take(word):
            parts.append(parse())
        return parts

    def _negation(self, depth: int) -> Predicate:
        if depth > _MAX_DEPTH:
            raise self._fail(f"more than {_MAX_DEPTH} levels of parentheses")
        if self._take("NOT"):
            return negated(self._negation(depth + 1))
        if self._take("("):
            inner = self.disjunction(depth + 1)
            self._expect(")")
            return inner
        return self._condition()

    def _condition(self) -> Predicate:
        if self._peek().kind in ("number", "text", "bytes"):
            literal = self._literal()
            op = self._operator()
            field, key = self._subject()
            return key.of(comparison(field, Comparison(_MIRRORED[op]), literal))
        field, key = self._subject()
        return key.of(self._condition_of(field))

    def _condition_of(self, field: DataField) -> Predicate:
        if self._take("IS", "NOT", "NULL"):
            return IsNotNull(field.name)
        if self._take("IS", "NULL"):
            return IsNull(field.name)
        within = not self._take("NOT")
        if self._take("IN"):
            return membership(field, self._list(), within=within)
        if self._take("BETWEEN"):
            return self._between(field, within=within)
        if self._take("LIKE"):
            return self._like(field, matches=within)
        if not within:
            raise self._fail("IN, BETWEEN or LIKE is missing")
        return comparison(field, Comparison(self._operator()), self._literal())

    def _subject(self) -> tuple[DataField, _Key]:
        """Parse a column, or the values of a map column under one key."""
        field = self._column()
        if not self._take("["):
            return field, _Key()
        if not isinstance(field.type, MapType):
            raise self._fail(f"{field.name} is {field.type}, not a map:")
        keys = membership(replace(field, type=field.type.key), [self._literal()], within=True)
        self._expect("]")
        if not isinstance(keys, In) or not keys.values:
            raise self._fail(f"{field.type.key} has no such key:")
        return replace(field, type=field.type.value), _Key(keys.values)

    def _between(self, field: DataField, *, within: bool) -> Predicate:
        low = self._literal()
        self._expect("AND")
        both = And((comparison(field, Comparison.GE, low), comparison(field, Comparison.LE, self._literal())))
        return both if within else negated(both)

    def _like(self, field: DataField, *, matches: bool) -> Predicate:
        token = self._peek()
        texts = isinstance(field.type, AtomicType) and field.type.root in (TypeRoot.CHAR, TypeRoot.VARCHAR)
        if token.kind != "text" or not texts:
            raise self._fail(
                f"LIKE needs a text pattern and a text column, and {field.name} is {field.type}:"
            )
        pattern = str(self._literal())
        special = re.search(r"[%_\\]", pattern)
        positive: Predicate
        if special is None:
            positive = Compare(field.name, Comparison.EQ, pattern)
        elif special.start() == len(pattern) - 1 and pattern.endswith("%"):
            positive = StartsWith(field.name, pattern[:-1])
        else:
            positive = Like(field.name, pattern)
        return positive if matches else negated(positive)

    def _operator(self) -> str:
        sign = _SIGNS.get(self._peek().text)
        if sign is None:
            raise self._fail("a comparison (=, <>, <, <=, >, >=, IN, BETWEEN, LIKE, IS NULL) is missing")
        self._next += 1
        return sign

    def _column(self) -> DataField:
        token = self._peek()
        if token.kind not in ("word", "quoted"):
            raise self._fail("a column name is missing")
        quote = token.text[0]
        name = token.text if token.kind == "word" else token.text[1:-1].replace(quote * 2, quote)
        try:
            field = self._row_type.field(name)
        except KeyError as err:
            names = ", ".join(self._row_type.names)
            raise InvalidInputError(
                f"filter {self._text!r}: there is no column {name!r}; the columns are {names}"
            ) from err
        self._next += 1
        return field

    def _list(self) -> list[Literal]:
        self._expect("(")
        values = [self._literal()]
        while self._take(","):
            values.append(self._literal())
        self._expect(")")
        return values

    def _literal(self) -> Literal:
        token = self._peek()
        following = self._tokens[self._next + 1 : self._next + 2]
        if token.word in _TYPED and following and following[0].kind == "text":
            self._next += 1
            token = self._peek()
        self._next += 1
        if token.kind == "number":
            return Decimal(token.text)
        if token.kind == "text":
            return token.text[1:-1].replace("''", "'")
        if token.kind == "bytes":
            return bytes.fromhex(token.text[2:].strip("'"))
        if token.word in ("TRUE", "FALSE"):
            return token.word == "TRUE"
        self._next -= 1
        raise self._fail(
            "use IS [NOT] NULL" if token.word == "NULL" else "a value is missing (text in single quotes)"
        )
