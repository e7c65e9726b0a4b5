"""Which tests and cases can notice a bug: those that call the function that it is in. Pure, but for reading the source."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tests.mutants.calls import CallMap
from tests.mutants.catalogue import Mutant

__all__ = ["Wave", "cases_of", "function_at", "waves"]

_BOUNDS = (10.0, 40.0, 120.0)
"""Seconds (as they were recorded) of all tests up to each wave."""
_FILES = (6, 30, 200)
"""Test files up to each wave: pytest reads all of them before the first test."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Tests that are run together, the likeliest first."""

    tests: tuple[str, ...]


def function_at(text: str, place: int) -> str | None:
    """The qualified name of the outermost function around a place in a source; None: outside of any."""
    line = text.count("\n", 0, place) + 1
    name, nodes = [], ast.parse(text).body
    while True:
        around = next((n for n in nodes if _named(n) and _first(n) <= line <= (n.end_lineno or 0)), None)
        if around is None:
            return None
        name.append(around.name)  # type: ignore[attr-defined]
        if not isinstance(around, ast.ClassDef):
            return ".".join(name)
        nodes = around.body


def cases_of(mutant: Mutant, text: str, calls: Mapping[str, Sequence[str]]) -> list[str]:
    """Cases of the battery that run the mutant's function, or any of its file where it is in none."""
    function = function_at(text, mutant.place(text))
    if function is not None:
        wanted = f"{mutant.file}:{function}"
        return [name for name, found in calls.items() if wanted in found]
    prefix = f"{mutant.file}:"
    return [name for name, found in calls.items() if any(one.startswith(prefix) for one in found)]


def waves(mutant: Mutant, text: str, calls: CallMap, red: Collection[str] = ()) -> list[Wave]:
    """All tests that call the function, but those that are `red`: first quick ones of its own package."""
    function = function_at(text, mutant.place(text))
    found = calls.tests_of(mutant.file, function) or calls.tests_of(mutant.file, None)
    package = PurePosixPath("tests", PurePosixPath(mutant.file).parent)
    module = PurePosixPath(mutant.file).stem

    def order(test: str) -> tuple[int, float]:
        path = PurePosixPath(test.partition("::")[0])
        near = 0 if module in path.stem else 1 if path.is_relative_to(package) else 2
        return near if found[test] < 2.0 else near + 1, found[test]

    waiting = sorted(set(found).difference(red), key=order)
    out, taken, files, seconds = [], list[str](), set[str](), 0.0
    for bound, most in zip(_BOUNDS, _FILES, strict=True):
        later = []
        for test in waiting:
            path = test.partition("::")[0]
            fits = seconds + found[test] <= bound and (path in files or len(files) < most)
            if fits:
                taken.append(test)
                files.add(path)
                seconds += found[test]
            else:
                later.append(test)
        if taken:
            out.append(Wave(tuple(taken)))
        taken, waiting = [], later
    return out


def _named(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _first(node: ast.stmt) -> int:
    """Decorators belong to it."""
    lines = [one.lineno for one in getattr(node, "decorator_list", [])]
    return min([node.lineno, *lines])
