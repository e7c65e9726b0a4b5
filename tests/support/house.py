"""The figures of docs/architecture.md ("The structure in figures"), counted anew.

    python -m tests.support.house

prints them. `tests/lakecore/test_house.py` holds each of them at its limit.
"""

from __future__ import annotations

import ast
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "lakecore"

BLOCK = 9
"""So many lines that stand again elsewhere are a repeated block; empty lines and imports do not count."""

__all__ = [
    "figures",
    "imports_of",
    "modules_by_folder",
    "planners",
    "repeated_blocks",
    "sources",
    "unit_modules",
]


def _modules() -> Iterator[Path]:
    return (path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py")


def modules_by_folder() -> Mapping[str, int]:
    """The modules of each folder of lakecore, beside `__init__.py`."""
    return Counter(path.parent.relative_to(ROOT).as_posix() for path in _modules())


def imports_of(path: Path) -> set[str]:
    """The modules that a module imports at its top, by their dotted names."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _pairs_inside(package: str) -> int:
    """How many pairs of modules of a package import one another (in one direction)."""
    paths = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): path
        for path in _modules()
        if path.is_relative_to(ROOT / package)
    }
    pairs = {
        frozenset((name, other))
        for name, path in paths.items()
        for other in imports_of(path) & paths.keys()
        if other != name
    }
    return len(pairs)


def planners() -> set[str]:
    """The modules called `plan`, which only decide, by their dotted names."""
    return {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for path in _modules()
        if path.stem == "plan"
    }


def repeated_blocks(texts: Mapping[str, str]) -> set[tuple[str, str]]:
    """The pairs of files that have the same `BLOCK` lines one after the other; a pair may be one file twice."""
    places: dict[tuple[str, ...], list[str]] = {}
    for name, text in texts.items():
        lines = list(_code_lines(text))
        for start in range(len(lines) - BLOCK + 1):
            places.setdefault(tuple(lines[start : start + BLOCK]), []).append(name)
    return {pair for names in places.values() for pair in combinations(sorted(names), 2)}


def _code_lines(text: str) -> Iterator[str]:
    """The lines of a module without imports, indentation and empty lines."""
    inside = False
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(("from ", "import ")) and not inside:
            inside = stripped.endswith("(")
        elif inside:
            inside = stripped != ")"
        elif stripped:
            yield stripped


def sources(*folders: str) -> Mapping[str, str]:
    """The text of every module below the folders, by its path below the root."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def unit_modules() -> set[str]:
    """The modules of lakecore whose functions a unit of a full compaction of two files runs."""
    from lakecore import load_catalog
    from lakecore.compact.kinds.primary_key import run
    from lakecore.jobs import compact
    from tests.support.lake import put

    seen: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_filename.startswith(str(PACKAGE)):
            seen.add(Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix())

    def profiled(unit: Any) -> Any:
        sys.setprofile(note)
        try:
            return original(unit)
        finally:
            sys.setprofile(None)

    original: Callable[[Any], Any] = run.run_unit
    with tempfile.TemporaryDirectory() as folder:
        catalog = load_catalog(folder)
        definition = {
            "columns": ["k INT", "v STRING"],
            "primaryKeys": ["k"],
            "options": {"bucket": "1", "write-only": "true"},
        }
        put(catalog.create_table("db.t", definition), [{"k": 1, "v": "a"}], [{"k": 1, "v": "b"}])
        with patch.object(run, "run_unit", profiled):
            compact.run(compact.Job(table="db.t", strategy=compact.Strategy.FULL), catalog)
    return seen


def figures() -> dict[str, int]:
    """Every figure by its name."""
    folders = modules_by_folder()
    units = unit_modules()
    words = (ROOT / "tests/lakecore/testdata/ordinary_words.txt").read_text().split()
    return {
        "modules": sum(folders.values()),
        "folders with more than 20 modules": sum(count > 20 for count in folders.values()),
        "largest folder": max(folders.values()),
        "import pairs inside compact": _pairs_inside("lakecore/compact"),
        "modules that a unit of a primary-key merge passes through": len(units),
        "packages of these": len({name.split("/")[0] for name in units if "/" in name}),
        "pairs of places with the same more than 8 lines": len(repeated_blocks(sources("lakecore"))),
        "ordinary words, which the glossary does not define": len(words),
    }


if __name__ == "__main__":
    for name, value in figures().items():
        print(f"{value:6}  {name}")
