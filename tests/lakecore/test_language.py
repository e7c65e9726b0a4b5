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
        "GoneFiles",
        "GoneManifests",
        "heir",
        "joined_plan",
        "kept_stderr",
        "KeptStderr",
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


PACKAGES = sorted(
    {path.relative_to(ROOT).parent.as_posix() for path in ROOT.glob("lakecore/*/__init__.py")}
    | {"operators", "dags"}
)


def test_packages_are_found() -> None:
    assert len(PACKAGES) > 20


@pytest.mark.parametrize("folder", PACKAGES)
def test_docstrings_begin_with_no_ellipsis(folder: str) -> None:
    assert elliptic_docstrings(folder) == []


VERBS = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "be",
        "has",
        "have",
        "had",
        "does",
        "do",
        "did",
        "can",
        "could",
        "may",
        "might",
        "must",
        "will",
        "would",
        "shall",
        "should",
    ]
)
NO_IMPERATIVE = frozenset(
    [
        "A",
        "All",
        "An",
        "Bytes",
        "Each",
        "Every",
        "How",
        "Names",
        "None",
        "One",
        "Rows",
        "That",
        "The",
        "This",
        "Those",
        "What",
        "Whether",
        "Which",
    ]
)


def may_have_a_verb(text: str) -> bool:
    """Whether the first paragraph has a verb, as far as forms of words can tell; in doubt it has one."""
    words = re.findall(r"[A-Za-z']+", re.sub(r"`[^`]*`", " it ", text.split("\n\n")[0]))
    forms = (re.fullmatch(r"[a-z]{2,}(s|ed)", word) for word in words[1:])
    imperative = words[0][0].isupper() and words[0] not in NO_IMPERATIVE | set(ELLIPTIC)
    return imperative or any(forms) or any(word.lower() in VERBS for word in words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Read the rows of a split.", True),
        ("What the planner decided.", True),
        ("The bucket of a row.", False),
        ("Of the last one.", False),
        ("Whether `x` is known.", True),
    ],
    ids=["imperative", "past", "noun", "ellipsis", "clause"],
)
def test_a_verb_is_found(text: str, expected: bool) -> None:
    assert may_have_a_verb(text) is expected


@pytest.mark.parametrize("folder", PACKAGES)
def test_public_functions_are_described_with_a_verb(folder: str) -> None:
    found = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in modules()
        if path.startswith(folder + "/")
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")
        if not may_have_a_verb(ast.get_docstring(node) or "It is empty.")
    ]
    assert found == []


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
