"""What says that it is pure has no way to storage, clocks, processes or chance."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLAIM = re.compile(r"\bPure\b|\b(is|are)\s+pure\b|\b[Nn]o IO\b")
EFFECTS = {
    "concurrent", "io", "multiprocessing", "os", "pathlib", "random", "secrets", "shutil", "socket", "subprocess", "tempfile",
    "threading", "time", "urllib.request", "uuid",
}  # fmt: skip
EFFECTFUL = ("lakecore.fs", "lakecore.store", "lakecore.executor", "lakecore.spark", "lakecore.jobs")
CALLS = {"now_ms", "fresh_id", "monotonic", "utcnow", "now", "today", "write_new", "overwrite", "unlink"}
"""Methods that ask a clock or change storage."""

ALLOWED = {
    ("lakecore/jobs/remote/plan.py", "lakecore.jobs.remote.record"): "the states of a run",
    ("lakecore/compact/engine/schedule.py", "lakecore.executor"): "the number of cores of an executor",
    ("lakecore/commit/manifest_merge.py", "lakecore.store.manifests"): "an option that both read",
    ("lakecore/fs/allowed_paths.py", "lakecore.fs.file_io"): "the name of a directory",
    ("lakecore/fs/allowed_paths.py", "lakecore.fs.resolve"): "a function on paths",
    ("lakecore/fs/allowed_paths.py", "lakecore.fs.table_rights"): "a value that decides",
    ("lakecore/catalog/privileges/grants.py", "lakecore.fs.table_rights"): "a value that decides",
    ("lakecore/store/two_writers.py", "lakecore.store.settle_time"): "a function on options",
    ("lakecore/scan/support.py", "lakecore.fs.allowed_paths"): "an option",
    ("lakecore/scan/support.py", "lakecore.store.external_places"): "a function on options",
}


@cache
def pure_modules() -> dict[str, ast.Module]:
    """Path below the root, and tree, of every module that claims it."""
    texts = {path: path.read_text() for path in sorted((ROOT / "lakecore").rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items() if CLAIM.search(text)}
    return {
        path.relative_to(ROOT).as_posix(): tree
        for path, tree in trees.items()
        if CLAIM.search(ast.get_docstring(tree) or "")
    }


def imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def effects(tree: ast.Module) -> set[str]:
    """The imports and calls by which a module could reach the outside."""
    found = {
        name
        for name in imported(tree)
        if name in EFFECTS or name.split(".")[0] in EFFECTS or _is_below(name, EFFECTFUL)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in ("open", "print", "input"):
                found.add(node.func.id)
            if isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
                found.add(node.func.attr)
    return found


def _is_below(name: str, roots: tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def test_there_are_many() -> None:
    assert len(pure_modules()) >= 100


@pytest.mark.parametrize("path", sorted(pure_modules()))
def test_it_is_pure(path: str) -> None:
    known = {name for place, name in ALLOWED if place == path}
    assert effects(pure_modules()[path]) - known == set()


def test_exceptions_are_still_needed() -> None:
    assert {(path, name) for path, name in ALLOWED if name in effects(pure_modules()[path])} == set(ALLOWED)


@pytest.mark.parametrize(
    "line", ["import time", "from lakecore.fs.local import LocalFileIO", "open('x')", "clock.now_ms()"]
)
def test_an_effect_is_seen(line: str) -> None:
    assert effects(ast.parse(line))
