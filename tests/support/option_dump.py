"""The options that Paimon's jars declare, as the oracle lists them. `python -m tests.support.option_dump` writes the list anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.oracle import Oracle

__all__ = ["RELEASES", "dumped", "stored"]

RELEASES = ("1.4.2", "2.0.0")
FILE = Path(__file__).resolve().parents[1] / "lakecore" / "testdata" / "paimon_options.jsonl"


def dumped() -> list[dict[str, Any]]:
    """One entry for each option: key, class, default, earlier keys, and the releases in which it is declared so."""
    found: dict[str, dict[str, Any]] = {}
    for release in RELEASES:
        with Oracle(release) as java:
            classes = java.call("options")
        for name in classes.pop("unread"):
            _add(found, {"class": name, "key": None, "default": None, "old": []}, release)
        for name, options in classes.items():
            for one in options:
                _add(found, {"class": name, **one}, release)
    return sorted(found.values(), key=lambda one: (one["class"], one["key"] or "", one["releases"]))


def stored() -> list[dict[str, Any]]:
    """The same from the list in the tree."""
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def _add(found: dict[str, dict[str, Any]], one: dict[str, Any], release: str) -> None:
    found.setdefault(json.dumps(one, sort_keys=True), {**one, "releases": []})["releases"].append(release)


if __name__ == "__main__":
    FILE.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in dumped()), encoding="utf-8")
