"""This module splits a CSV line into fields, by the rules of Paimon's Java reader. They differ from RFC 4180:
a line break ends a row also within quotes. It is pure.
"""

from __future__ import annotations

from lakecore.read.directory.rules import CsvRules

__all__ = ["csv_fields", "has_only_spaces"]

_JAVA_NOT_BLANK = "\u0085\u00a0\u2007\u202f"


def has_only_spaces(text: str) -> bool:
    """Return whether the text is empty or white space as Java defines it: no-break spaces count as text."""
    return not text or (text.isspace() and not any(char in _JAVA_NOT_BLANK for char in text))


def csv_fields(line: str, rules: CsvRules, count: int) -> list[str | None]:
    """Return the texts of the first `count` fields; those that a line lacks are None, and all are None for a
    blank line.
    """
    if not count or has_only_spaces(line):
        return [None] * count
    if rules.quote in line or rules.escape in line:
        fields = _quoted_fields(line, rules, count)
    else:
        fields = list(line.split(rules.separator, count)[:count])
    return fields + [None] * (count - len(fields))


def _quoted_fields(line: str, rules: CsvRules, count: int) -> list[str | None]:
    fields: list[str | None] = []
    text = ""
    in_quotes = in_field = False
    at = 0
    while at < len(line) and len(fields) < count:
        char, following = line[at], line[at + 1 : at + 2]
        if char == rules.escape:
            if (in_quotes or in_field) and following in (rules.quote, rules.escape) and following:
                text += following
                at += 1
        elif char == rules.quote:
            if (in_quotes or in_field) and following == rules.quote:
                text += following
                at += 1
            else:
                if _is_embedded(line, at, rules.separator):
                    text = "" if text and has_only_spaces(text) else text + char
                in_quotes = not in_quotes
            in_field = not in_field
        elif char == rules.separator and not in_quotes:
            fields.append(text)
            text, in_field = "", False
        else:
            text += char
            in_field = True
        at += 1
    if len(fields) < count and not in_quotes:
        fields.append(text)
    return fields


def _is_embedded(line: str, at: int, separator: str) -> bool:
    """Return whether a quote is in the middle of a field, as in `a,bc"d"ef`; the first three characters of a
    line are not.
    """
    return at > 2 and line[at - 1] != separator and len(line) > at + 1 and line[at + 1] != separator
