"""Environments of Python beside the one of the checkout, made from lock files: other releases of a dependency."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["ROOT", "install_checkout", "install_wheel", "locked_environment"]

ROOT = Path(__file__).parents[2]


def locked_environment(folder: str, lock: Path) -> Path:
    """Return the Python of `.cache/FOLDER`, which has exactly the packages of the lock; it is made if there is none."""
    made = ROOT / ".cache" / folder
    python = made / "bin" / "python"
    if not python.exists():
        _uv("venv", "-q", "--python", sys.executable, str(made))
    _uv("pip", "sync", "-q", "--require-hashes", "--python", str(python), str(lock))
    return python


def install_checkout(python: Path) -> None:
    """Install lakecore from the checkout into that environment, with its entry points, without dependencies."""
    _uv("pip", "install", "-q", "--no-deps", "--no-build-isolation", "--python", str(python), "-e", str(ROOT))


def install_wheel(python: Path) -> None:
    """Build lakecore's wheel from the checkout, and install it into that environment, without dependencies."""
    with tempfile.TemporaryDirectory() as folder:
        build = [str(ROOT / ".venv/bin/python"), "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, check=True, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wheels = [str(path) for path in Path(folder).glob("*.whl")]
        _uv(
            "pip", "install", "-q", "--no-deps", "--no-index", "--reinstall", "--python", str(python), *wheels
        )


def _uv(*arguments: str) -> None:
    settings = {"UV_SYSTEM_CERTS": "true", "UV_HTTP_TIMEOUT": "300", **os.environ}
    subprocess.run([str(ROOT / ".venv/bin/uv"), *arguments], check=True, env=settings, cwd=ROOT)
