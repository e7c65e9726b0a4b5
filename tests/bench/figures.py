"""Measured figures as files that others can check: what was measured, on which code and machine, by which command.

A bench calls `conditions` before it starts and `write_figures` when it has ended. `make figures` makes the README's
tables from the files (`tests/bench/readme.py`).
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["FIGURES", "ROOT", "conditions", "write_figures"]

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "figures"
PACKAGES = ("pyarrow", "numpy", "pyspark")


def conditions(paimon: Sequence[str] = (), root: Path = ROOT) -> dict[str, Any]:
    """The circumstances of a measurement; call it before the measurement loads the machine.

    `paimon`: releases of Java Paimon that take part. What cannot be found out is None.
    """
    commit = _output("git", "-C", str(root), "rev-parse", "HEAD")
    changed = _output("git", "-C", str(root), "status", "--porcelain", "--", ".", ":!docs/figures")
    return {
        "commit": commit,
        "dirty": None if changed is None else bool(changed),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", *sys.orig_argv[1:]]),
        "machine": {"cpu": _cpu_model(), "cores": os.cpu_count(), "memory_bytes": _memory_bytes()},
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "versions": {
            "python": platform.python_version(),
            **{name: _package_version(name) for name in PACKAGES},
            "java": _java_version(),
            "paimon": list(paimon),
        },
        "note": None,
    }


def write_figures(
    name: str, measured: dict[str, Any], figures: dict[str, Any], folder: Path = FIGURES
) -> Path:
    """Write `<folder>/<name>.json`, in place of an older one; `measured` is what `conditions` gave."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    text = json.dumps({"name": name, "measured": measured, "figures": figures}, indent=2, ensure_ascii=False)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(text + "\n")
    fresh.replace(path)
    return path


def _output(*command: str) -> str | None:
    """What the command prints; None when it cannot be run or fails."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _package_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _java_version() -> str | None:
    lines = (_output("java", "--version") or "").splitlines()
    return lines[0] if lines else None


def _cpu_model() -> str | None:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
