"""Two libraries for Paimon tables that are neither ours nor Java's: pypaimon and pypaimon-rust, in a process of .venv-pypaimon."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

__all__ = ["LIBRARIES", "ReadTable", "paimon_library"]

LIBRARIES = ("python", "rust")
ReadTable = Callable[[Path, str], pa.Table]
"""Return all rows of a table of a warehouse."""
_ROOT = Path(__file__).resolve().parents[2]
_PYTHON = _ROOT / ".venv-pypaimon" / "bin" / "python"
_READER = _ROOT / "tests" / "interop" / "pypaimon_reader.py"


@contextmanager
def paimon_library(name: str, folder: Path) -> Iterator[ReadTable]:
    """Start the process of a library, which writes what it reads into the folder; it ends with the context."""
    assert _PYTHON.exists(), "run `make setup-tests`"
    log = folder / f"{name}.log"
    reader = subprocess.Popen(
        [_PYTHON, "-W", "ignore", _READER, name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log.open("w"),
        text=True,
    )

    def read(warehouse: Path, table: str) -> pa.Table:
        file = folder / f"{name}.arrow"
        assert reader.stdin is not None
        assert reader.stdout is not None
        reader.stdin.write(
            json.dumps({"warehouse": str(warehouse), "table": table, "file": str(file)}) + "\n"
        )
        reader.stdin.flush()
        assert reader.stdout.readline().strip(), log.read_text()[-3000:]
        return pa.ipc.open_file(file).read_all()

    yield read
    reader.communicate(timeout=60)
