"""Options of tables are read by `Option` or `TableOptions`: a key that is read elsewhere has no type, no default and no
old name in one place.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOMES = (
    "lakecore/metadata/",
    "lakecore/catalog/",
    "lakecore/options.py",
    "lakecore/verify/rules/",
    "lakecore/scan/support.py",
)
"""Options are declared or checked here; the proof reads the rules of a table a second time by itself (a contract). `support`
refuses tables for options that this release does not obey, which have no type here: it needs the key and the text."""


def raw_reads(path: Path) -> int:
    """Count the calls of `options.get`, `schema.options.get` and the like."""
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and (
            getattr(node.func.value, "attr", None) == "options"
            or getattr(node.func.value, "id", None) == "options"
        )
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_options_are_read_where_they_are_declared() -> None:
    found = {
        name: count
        for path in (ROOT / "lakecore").rglob("*.py")
        if not (name := path.relative_to(ROOT).as_posix()).startswith(HOMES) and (count := raw_reads(path))
    }
    assert found == {}, "declare an Option for the key"
