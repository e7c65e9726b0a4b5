"""Parameters, variables, fields, attributes and functions have the field's terms as names, not participles such as
`found`. No class, and no private function but a question, is called by any participle alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("lakecore", "operators", "dags", "pyspark_lakecore", "plugins")

WORDS = frozenset(
    {
        *("asked", "done", "found", "given", "gone", "got", "held", "kept", "known", "left", "made"),
        *("meant", "met", "named", "said", "seen", "shown", "taken", "told", "wanted", "won"),
    }
)
"""Each of these says that something happened to a thing, and not what the thing is."""

IRREGULAR = frozenset({"broken", "built", "chosen", "lost", "read", "sent", "written"})

NOUNS = frozenset({"Split", "Embed", "Feed", "Need", "Seed", "Succeed"})
"""These end like participles, and are nouns; `Split` is Paimon's term."""


def parameters(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Function and name of every parameter. `left` beside `right` is a side, not what remains."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            given = node.args
            every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
            names = {one.arg for one in every if one is not None}
            sides = {"left"} if "right" in names else set()
            yield from ((getattr(node, "name", "lambda"), name) for name in sorted(names - sides))


def fields(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Class and name of every field with a type."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    yield node.name, line.target.id


def attributes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Every attribute that is set, and every function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield ast.unparse(node.value), node.attr
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield "def", node.name


def variables(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Function and name of every variable. `left` beside `right` is a side here, too."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            stored = {one.id for one in ast.walk(node) if _is_stored(one)}
            given = {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
            sides = {"left"} if "right" in stored | given else set()
            yield from ((node.name, name) for name in sorted(stored - sides))


def _is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def participle_functions(tree: ast.Module) -> Iterator[str]:
    """Every private function that is called by one participle, unless it answers yes or no."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("_"):
            word = node.name.strip("_")
            answers = node.returns is not None and ast.unparse(node.returns) == "bool"
            if is_participle(word) and not answers:
                yield node.name


def is_participle(word: str) -> bool:
    """True for one word that is a participle. `_read` is a verb as well, so it is none."""
    if "_" in word or word.title() in NOUNS:
        return False
    return word.endswith("ed") or word in WORDS | IRREGULAR - {"read"}


def participle_classes(tree: ast.Module) -> Iterator[str]:
    """Every class whose name is one word, and that word a participle."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            word = node.name.strip("_")
            one_word = word.istitle() and word not in NOUNS
            if one_word and (word.endswith("ed") or word.lower() in WORDS | IRREGULAR):
                yield word


def household_names(path: str, tree: ast.Module) -> Iterator[str]:
    """Every name of a module that says only that something happened."""
    yield from (f"{path}: class.{name}" for name in participle_classes(tree))
    yield from (f"{path}: def.{name}" for name in participle_functions(tree))
    for owner, name in (*parameters(tree), *variables(tree), *fields(tree), *attributes(tree)):
        if name.strip("_") in WORDS:
            yield f"{path}: {owner}.{name}"


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def test_names_say_what_things_are() -> None:
    names = {name for path, tree in modules() for name in household_names(path, tree)}
    assert sorted(names) == [], (
        "name the thing: `snapshots`, `result`, `excluded`; a function says what it does"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(kept): ...", ["m.py: f.kept"]),
        ("def f(left, right): ...", []),
        ("def f(*, left): ...", ["m.py: f.left"]),
        ("x = lambda found: found", ["m.py: lambda.found"]),
        ("class C:\n    _held: int = 0\n    rows: int", ["m.py: C._held"]),
        ("def f(**given): ...", ["m.py: f.given"]),
        ("def f(kept_rows): ...", []),
        ("self._left = 1", ["m.py: self._left"]),
        ("def held(): ...", ["m.py: def.held"]),
        ("self.rows.found", []),
        ("class _Held: ...", ["m.py: class.Held"]),
        ("class Merged(Base): ...", ["m.py: class.Merged"]),
        ("class MergedRows: ...", []),
        ("class Split: ...", []),
        ("def f():\n    found = 1", ["m.py: f.found"]),
        ("def f():\n    left, right = 1, 2", []),
        ("def _joined() -> str: ...", ["m.py: def._joined"]),
        ("def _moved() -> bool: ...", []),
        ("def _read() -> bytes: ...", []),
    ],
)
def test_household_names_are_seen(text: str, expected: list[str]) -> None:
    assert list(household_names("m.py", ast.parse(text))) == expected
