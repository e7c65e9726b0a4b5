"""Names and docstrings are plain English, as far as the source can show it cheaply.

The lists only shrink where they name exceptions and only grow where they name packages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.grammar import has_main_verb

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("lakecore", "operators", "dags", "plugins", "pyspark_lakecore")

ELLIPTIC = ("Of", "By", "As", "With", "Less")
"""First words of docstrings that have no verb: `Of those, which are left`."""

COINED = frozenset(
    {
        "asked",
        "avro_lanes",
        "coded_text",
        "column_givers",
        "Descent",
        "gone",
        "Heir",
        "GoneFiles",
        "GoneManifests",
        "heir",
        "joined_plan",
        "made",
        "kept_stderr",
        "KeptStderr",
        "map_notes",
        "name_sets",
        "netting",
        "other_counts",
        "required_parts",
        "several_counts",
        "shapers",
        "shown",
        "stored_shape",
        "told",
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
    | {"operators", "dags", "plugins", "pyspark_lakecore"}
)


def test_packages_are_found() -> None:
    assert len(PACKAGES) > 20


@pytest.mark.parametrize("folder", PACKAGES)
def test_docstrings_begin_with_no_ellipsis(folder: str) -> None:
    assert elliptic_docstrings(folder) == []


def attribute_docstrings(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Name, line and text of every literal that stands after a public field or module constant."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            for named, text in pairwise(node.body):
                target = getattr(named, "target", None) or next(iter(getattr(named, "targets", [])), None)
                if (
                    isinstance(target, ast.Name)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                    and isinstance(text.value.value, str)
                ):
                    yield target.id, text.lineno, text.value.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Read the rows of a split.", True),
        ("Name, type and comment of each column.", False),
        ("Place of a bucket.", False),
        ("The bucket of a row.", False),
        ("The files that a snapshot removed.", False),
        ("The files that a snapshot removed are deleted.", True),
        ("The report that a dry run prints.", False),
        ("The options to reach it, which may be secrets.", False),
        ("This unit joins files.", True),
        ("These files only change their level.", True),
        ("Whether `x` is known.", False),
        ("It tells whether `x` is known.", True),
        ("What the planner decided.", False),
        ("Turns messages into snapshots.", False),
        ("It turns messages into snapshots.", True),
        ("Commits of picks.", False),
        ("Of the last one.", False),
    ],
)
def test_a_main_verb_is_found(text: str, expected: bool) -> None:
    assert has_main_verb(text) is expected


@pytest.mark.parametrize("folder", PACKAGES)
def test_public_docstrings_are_sentences(folder: str) -> None:
    found = [
        f"{path}:{line} {name}: {text.splitlines()[0]}"
        for path, tree in modules()
        if path.startswith(folder + "/") or (folder == "lakecore/catalog" and path.count("/") == 1)
        for name, line, text in (*docstrings(tree), *attribute_docstrings(tree))
        if not name.startswith("_") and not has_main_verb(text)
    ]
    assert found == [], (
        "write a sentence with a subject and a verb, or begin with an imperative; verbs: tests/support/verbs.txt"
    )


def test_no_name_is_a_coined_word() -> None:
    found = {f"{path}: {name}" for path, tree in modules() for name in names(tree) if name in COINED}
    files = {path for path, _ in modules() if Path(path).stem in COINED}
    assert found | files == set()


def public_names() -> Iterator[tuple[str, str]]:
    """Path and name of every public module, class, function and method of the packages (not of example DAGs)."""
    for path, tree in modules():
        if not path.startswith("dags/"):
            yield from ((path, part) for part in Path(path).with_suffix("").parts if not part.startswith("_"))
            yield from ((path, name) for name in _public_definitions(tree))


def _public_definitions(node: ast.Module | ast.ClassDef) -> Iterator[str]:
    for child in node.body:
        if isinstance(
            child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        ) and not child.name.startswith("_"):
            yield child.name
            if isinstance(child, ast.ClassDef):
                yield from _public_definitions(child)


def words_of(name: str) -> list[str]:
    """The words of a name in camel case or with underscores."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def singulars(word: str) -> set[str]:
    """The word, and what it may be the plural of."""
    endings = (("ies", "y"), ("es", ""), ("s", ""))
    return {word} | {word.removesuffix(end) + start for end, start in endings if word.endswith(end)}


def glossary_terms() -> set[str]:
    """The words that the glossary defines: in its first column, or emphasised in a meaning."""
    text = (ROOT / "docs/glossary.md").read_text()
    terms = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) + re.findall(r"\*([^*|]+)\*", text)
    return set(re.findall(r"[a-z]+", " ".join(terms).lower()))


ORDINARY = ROOT / "tests/lakecore/testdata/ordinary_words.txt"
"""Words of English, programming and its libraries. A word of the domain is defined in docs/glossary.md instead."""


def test_words_of_public_names_are_ordinary_or_defined() -> None:
    known = glossary_terms() | set(ORDINARY.read_text().split())
    found = {
        f"{path}: {name}: {word}"
        for path, name in public_names()
        for word in words_of(name)
        if not singulars(word) & known
    }
    assert sorted(found) == [], (
        f"define the word in docs/glossary.md, use a plainer one, or add it to {ORDINARY.name}"
    )


def test_ordinary_words_are_in_order_and_in_use() -> None:
    listed = ORDINARY.read_text().split()
    used = {word for _, name in public_names() for word in words_of(name)}
    assert listed == sorted(set(listed))
    assert [word for word in listed if not any(word in singulars(one) for one in used)] == []
    assert [word for word in listed if word in glossary_terms()] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CompactTableOperator", ["compact", "table", "operator"]),
        ("read_S3_file", ["read", "s", "file"]),
        ("JSONLines", ["json", "lines"]),
    ],
)
def test_words_of_a_name(name: str, expected: list[str]) -> None:
    assert words_of(name) == expected


DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md", ROOT / "README.md")
)


def broken_lines(text: str) -> Iterator[str]:
    """Lines that end in the middle of a paragraph though the next word has room: what an edit left behind."""
    for before, line, after in zip(
        text.splitlines(), text.splitlines()[1:], text.splitlines()[2:], strict=False
    ):
        margins = {len(one) - len(one.lstrip()) for one in (before, line, after)}
        goes_on = re.match(r"[a-z]+\b(?!\s*[:=])", after.strip()) and re.search(r"[\w,]$", line)
        if len(before) > 70 and len(line) < 60 and len(margins) == 1 and goes_on:
            yield line.strip()


def test_paragraphs_of_docstrings_fill_their_lines() -> None:
    broken = [
        f"{path}: {line}"
        for path, tree in modules()
        for _, _, text in (*docstrings(tree), *attribute_docstrings(tree))
        for line in broken_lines(text)
    ]
    assert broken == [], "wrap these paragraphs again"


@pytest.mark.parametrize(
    ("line", "after", "expected"),
    [
        ("file is", "written anew, and its new form is appended.", ["file is"]),
        ("It is written anew.", "its new form is appended.", []),
        ("one two:", "three", []),
        ("  one two", "three", []),
        ("key = value", "other = value", []),
        ("file is", "", []),
    ],
)
def test_broken_lines_are_seen(line: str, after: str, expected: list[str]) -> None:
    before = "A row is replaced: it is deleted by a deletion vector where the table has them, else its data"
    assert list(broken_lines(f"{before}\n{line}\n{after}")) == expected


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
