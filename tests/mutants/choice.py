"""Which tests and cases can notice a bug: those that call the function that it is in. Pure, but for reading the source."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tests.mutants.calls import CallMap
from tests.mutants.catalogue import Mutant

__all__ = ["Wave", "cases_of", "function_at", "waves"]

_BOUNDS = (10.0, 40.0, 120.0)
"""Seconds (as they were recorded) of all tests up to each wave."""
_FILES = (12, 40, 200)
_QUICK = 2.0
_VARIANTS = 3
_FRESH_SECONDS = 1.5
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


def waves(
    mutant: Mutant,
    text: str,
    calls: CallMap,
    *,
    red: Collection[str] = (),
    fresh: Mapping[str, str] | None = None,
) -> list[Wave]:
    """All tests that call the function, but those that are `red`: first quick ones of its own package.

    `fresh`: texts of test files whose tests `calls` does not know; those that name the module are run whole.
    """
    function = function_at(text, mutant.place(text))
    found = calls.tests_of(mutant.file, function) or calls.tests_of(mutant.file, None)
    module = mutant.file.removesuffix(".py").replace("/", ".")
    package, name = module.rpartition(".")[::2]
    names = (module, f"from {package} import {name}")
    for path, content in (fresh or {}).items():
        if any(one in content for one in names) or (function and function.rpartition(".")[2] in content):
            found[path] = _FRESH_SECONDS
    found = {test: seconds for test, seconds in found.items() if test not in red}
    near = PurePosixPath("tests", PurePosixPath(mutant.file).parent)
    variants = _variants(found)

    def order(test: str) -> tuple[int, int, float]:
        path = PurePosixPath(test.partition("::")[0])
        rank = 0 if PurePosixPath(mutant.file).stem in path.stem else 1 if path.is_relative_to(near) else 2
        if "::" not in test:
            return min(rank, 1), 0, found[test]
        return rank if found[test] < _QUICK else rank + 1, variants[test], found[test]

    return _divided(sorted(found, key=order), found)


def _variants(tests: Mapping[str, float]) -> dict[str, int]:
    """Of the cases of a parametrized test the quickest few come first, then as many of the next ones, and so on."""
    out, seen = {}, Counter[str]()
    for test in sorted(tests, key=lambda test: tests[test]):
        name = test.partition("[")[0]
        out[test] = seen[name] // _VARIANTS
        seen[name] += 1
    return out


def _divided(waiting: list[str], seconds: Mapping[str, float]) -> list[Wave]:
    out, files, spent = [], set[str](), 0.0
    for bound, most in zip(_BOUNDS, _FILES, strict=True):
        taken, later = [], []
        for test in waiting:
            path = test.partition("::")[0]
            if spent + seconds[test] <= bound and (path in files or len(files) < most):
                taken.append(test)
                files.add(path)
                spent += seconds[test]
            else:
                later.append(test)
        if taken:
            out.append(Wave(tuple(_by_file(taken, list(seconds)))))
        waiting = later
    return out


def _by_file(tests: Sequence[str], known: Sequence[str]) -> list[str]:
    """Files in the order of their first test, and in each its tests as they stand there: some depend on that."""
    place = {test: number for number, test in enumerate(known)}
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    rank = {path: number for number, path in enumerate(files)}
    return sorted(tests, key=lambda test: (rank[test.partition("::")[0]], place[test]))


def _named(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


def _first(node: ast.stmt) -> int:
    """Decorators belong to it."""
    lines = [one.lineno for one in getattr(node, "decorator_list", [])]
    return min([node.lineno, *lines])
