"""Names and docstrings are plain English, as far as the source can show it cheaply.

The lists only shrink where they name exceptions and only grow where they name packages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("lakecore", "operators", "dags")

ELLIPTIC = ("Of", "By", "As", "With", "Less")
"""First words of docstrings that have no verb: `Of those, which are left`."""

COINED = frozenset(
    {
        "avro_lanes",
        "coded_text",
        "column_givers",
        "Descent",
        "Heir",
        "heir",
        "joined_plan",
        "map_notes",
        "name_sets",
        "netting",
        "other_counts",
        "required_parts",
        "several_counts",
        "shapers",
        "stored_shape",
        "Unchanged",
    }
)
"""Participles and household words that were names, and are not any more. It grows as they are renamed."""


@cache
def modules() -> list[tuple[str, ast.Module]]:
    """Path below the root, and tree, of every module."""
    paths = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return [(path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())) for path in paths]


def docstrings(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Name, line and docstring of the module and of all its classes and functions."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "name", "module"), getattr(node, "lineno", 1), text


def first_word(text: str) -> str:
    return re.split(r"\W", text, maxsplit=1)[0]


def elliptic_docstrings(folder: str) -> list[str]:
    return [
        f"{path}:{line} {name}: {text.splitlines()[0]}"
        for path, tree in modules()
        if path.startswith(folder + "/")
        for name, line, text in docstrings(tree)
        if first_word(text) in ELLIPTIC
    ]


def names(tree: ast.Module) -> Iterator[str]:
    """Names of classes, functions, parameters and variables that a module makes."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


DONE = (
    "lakecore/predicate",
    "lakecore/types",
)
"""Packages whose docstrings were read; others follow."""


@pytest.mark.parametrize("folder", DONE)
def test_docstrings_begin_with_no_ellipsis(folder: str) -> None:
    assert elliptic_docstrings(folder) == []


def test_no_name_is_a_coined_word() -> None:
    found = {f"{path}: {name}" for path, tree in modules() for name in names(tree) if name in COINED}
    files = {path for path, _ in modules() if Path(path).stem in COINED}
    assert found | files == set()


DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md")
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_that_a_document_names_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    paths = set(re.findall(r"`((?:lakecore|operators|tests|tools|docs|dags)/[\w/.-]*[\w/])`", text))
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_words_of_the_glossary_have_one_meaning_each() -> None:
    text = (ROOT / "docs/glossary.md").read_text()
    words = [
        word.strip()
        for line in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
        if line != "word"
        for word in line.split(",")
    ]
    assert len(words) > 120
    assert sorted(words) == sorted(set(words))
