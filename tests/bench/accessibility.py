"""What axe-core finds in a page: whether screen readers, keyboards and people with weak eyes can use it.

axe-core is taken from the npm registry by its lock (`tests/bench/axe`), into `.cache/axe`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.chromium import Chromium

__all__ = ["audit"]

_ROOT = Path(__file__).resolve().parents[2]
_LOCK = Path(__file__).parent / "axe"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def audit(browser: Chromium) -> list[dict[str, Any]]:
    """The rules that the page of the browser violates, each with an example. Raises RuntimeError if none was checked."""
    browser.run(_axe())
    options = json.dumps({"runOnly": {"type": "tag", "values": _RULES}})
    found = json.loads(browser.run(f"axe.run(document, {options}).then(one => JSON.stringify(one))"))
    if not found["passes"]:
        raise RuntimeError("axe-core checked nothing")
    return [
        {
            "rule": one["id"],
            "impact": one["impact"],
            "elements": len(one["nodes"]),
            "example": one["nodes"][0]["html"][:200],
            "why": one["nodes"][0]["failureSummary"][:300],
        }
        for one in found["violations"]
    ]


@cache
def _axe() -> str:
    folder = _ROOT / ".cache" / "axe"
    if not (folder / "node_modules").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(_LOCK / name, folder / name)
        words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(words, check=True, cwd=folder)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()
