"""This module reads and writes the files of the DAG folder."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lakecore.errors import UnavailableError

__all__ = ["DagFolder"]

_FILE = "lakecore_dags.py"


@dataclass(frozen=True, slots=True)
class DagFolder:
    """This is the folder whose Python files Airflow reads as DAGs."""

    path: Path

    @property
    def file(self) -> Path:
        """Return the DAG file that `lakecore airflow init` makes."""
        return self.path / _FILE

    def check_writable(self) -> None:
        """Check that files can be made in it, or that it can be made itself. Raises UnavailableError."""
        existing = next(one for one in (self.path, *self.path.parents) if one.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            raise UnavailableError(
                f"{existing} is no folder in which this user can write: run the command as its owner, or "
                "name another one (--dags-folder, LAKECORE_CONFIG)"
            )

    def text(self) -> str | None:
        """Return the text of the DAG file, or None."""
        return _read(self.file) if self.file.exists() else None

    def others(self) -> dict[str, str]:
        """Return the texts of the other DAG files at the top of the folder, by path."""
        paths = sorted(self.path.glob("*.py")) if self.path.is_dir() else []
        return {str(path): _read(path) for path in paths if path != self.file and path.is_file()}

    def write(self, path: Path, text: str) -> None:
        """Write a whole file, or nothing. The file keeps no other name, which Airflow might read."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o644)
                os.replace(name, path)
            except BaseException:
                os.unlink(name)
                raise
        except OSError as err:
            raise UnavailableError(
                f"{path} cannot be written: {err.strerror}; make room, or name another folder "
                "(--dags-folder, LAKECORE_CONFIG)"
            ) from err


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as err:
        raise UnavailableError(f"{path} cannot be read: {err.strerror}") from err
