"""Messages of errors, logs and reports are plain sentences: what a parser of the source can say of them.

It reads the texts in `raise X(...)`, in calls of a logger, in notes of errors and behind `why=` and `reason=`. Where
a message has a value, `{}` stands for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *(f"lakecore/{path.parent.name}" for path in sorted((ROOT / "lakecore").glob("*/__init__.py"))),
    "operators",
)
LOG_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
KEYWORDS = {"why", "reason", "problem", "loses"}
HOUSEHOLD = (
    "went",
    "told",
    "tells",
    "doomed",
    "beside",
    "apart",
    "faster",
    "folded",
    "nobody else",
    "is gone",
    "are gone",
)
"""Words for which the documentation of the field has a term, or which need one more reading."""

RULES = {
    "begins with a preposition": re.compile(r"^(Of|By|As|With|Less|of|less) "),
    "has an ellipsis": re.compile(r"[\w})](\.\.\.|…)(?=\s|$)"),
    "has a household word": re.compile(rf"\b({'|'.join(HOUSEHOLD)})\b"),
    "has two blanks in a row": re.compile(r"\S {2,}\S"),
    "repeats a word": re.compile(r"\b([a-z]+) \1\b"),
    "has a blank before a comma": re.compile(r" [,;]"),
    "has a statement in brackets of nothing": re.compile(r"\(\)"),
}


def text_of(node: ast.expr) -> str | None:
    """The text of a literal, with `{}` for each value; None for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def message_nodes(tree: ast.AST) -> Iterator[ast.expr]:
    """Expressions that become messages: arguments of raised errors, of loggers and of notes, and reasons."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from node.exc.args
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if name == "add_note" or (
                isinstance(owner, ast.Name) and owner.id == "logger" and name in LOG_LEVELS
            ):
                yield from node.args[:1]
            yield from (keyword.value for keyword in node.keywords if keyword.arg in KEYWORDS)


def messages(package: str) -> Iterator[tuple[str, str]]:
    """(file:line, text) of all messages of a package that are literals."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in message_nodes(ast.parse(path.read_text())):
            text = text_of(node)
            if text is not None:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def faults(text: str) -> list[str]:
    """What is wrong with a message."""
    return [name for name, rule in RULES.items() if rule.search(text)]


@pytest.mark.parametrize("package", PACKAGES)
def test_messages_are_plain_sentences(package: str) -> None:
    found = list(messages(package))
    assert found, "no message was found, so nothing was checked"
    assert [f"{place} {name}: {text}" for place, text in found for name in faults(text)] == []


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("raise ValueError('Of the table: no schema')", ["begins with a preposition"]),
        ("raise LakeError(path, f'its file {name} is gone')", ["has a household word"]),
        ("logger.info('%s: wait...', name)", ["has an ellipsis"]),
        ("self.logger.info('wait...')\nlogger.info('the the file')", ["repeats a word"]),
        ("error.add_note('one  file')", ["has two blanks in a row"]),
        ("Work(why='others were faster', changes=())", ["has a household word"]),
        (
            "raise ValueError(f'table {name} has {count} files , which are too many')",
            ["has a blank before a comma"],
        ),
        ("raise ValueError(f'table {name} has no schema; create one')", []),
    ],
    ids=["preposition", "household", "ellipsis", "twice", "note", "reason", "comma", "right"],
)
def test_what_the_rules_find(source: str, wrong: list[str]) -> None:
    texts = [text_of(node) for node in message_nodes(ast.parse(source))]
    assert [name for text in texts if text is not None for name in faults(text)] == wrong
