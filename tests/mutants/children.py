"""Work in a child process: a fork of one that has imported what is needed, so that it begins at once."""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

__all__ = ["DiedError", "OutOfTimeError", "collect_tests", "forget_lakecore", "in_child", "warm_up"]

_LIBRARIES = (
    "fastavro", "hypothesis", "numpy", "pandas", "pyarrow.compute", "pyarrow.orc", "pyarrow.parquet", "pyroaring", "pytest",
)  # fmt: skip


_QUIET = ("-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")


class OutOfTimeError(Exception):
    """The child did not end in time and was killed, with all that it started."""


class DiedError(Exception):
    """The child ended without an answer: the interpreter crashed, or was made to exit."""


def warm_up(tree: Path) -> None:
    """Import what children will need, lakecore of `tree` too. Nothing may start a thread: a fork copies only one."""
    sys.path[:0] = _roots(tree)
    for name in _LIBRARIES:
        importlib.import_module(name)
    import lakecore

    for module in pkgutil.walk_packages(lakecore.__path__, "lakecore."):
        if not module.name.startswith("lakecore.spark"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()  # what children share is never looked at again, nor copied for it


def collect_tests(tree: Path, folders: Sequence[str]) -> None:
    """Import the tests of these folders, as pytest does: children then begin with the first test.

    What a module of tests computes when it is imported is computed without the bug.
    """
    import pytest

    here, out = Path.cwd(), sys.stdout
    os.chdir(tree)
    try:
        with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
            pytest.main(["--collect-only", *_QUIET, *folders])
    finally:
        os.chdir(here)
        sys.stdout = out
    gc.collect()
    gc.freeze()


def forget_lakecore() -> None:
    """For a child that imports lakecore of another tree."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("lakecore", "lakecore_airflow")]:
        del sys.modules[name]


def in_child(tree: Path, work: Callable[[], Any], *, seconds: float, log: Path | None = None) -> Any:
    """What `work` returns (plain values), run in `tree`.

    Raises OutOfTimeError, DiedError; RuntimeError with the trace when `work` fails. `log`: gets what it prints.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _child(tree, work, write, log)
    os.close(write)
    try:
        data = _all_of(read, seconds)
    finally:
        os.close(read)
        _end(pid)
    if not data:
        raise DiedError("the child died without an answer")
    answer = json.loads(data)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["value"]


def _roots(tree: Path) -> tuple[str, str]:
    """The folders of a checkout that have packages."""
    return os.fspath(tree), os.fspath(tree / "operators")


def _child(tree: Path, work: Callable[[], Any], write: int, log: Path | None) -> None:
    code = 1
    try:
        os.setsid()
        out = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(tree)
        sys.path[:] = [
            *_roots(tree),
            *(path for path in sys.path if path not in ("", *_roots(Path(__file__).parents[2]))),
        ]
        os.environ["PYTHONPATH"] = os.pathsep.join(_roots(tree))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False  # most modules are those of the child before
        try:
            answer = {"value": work()}
        except BaseException:  # noqa: BLE001 - the border of the child: its failure is its answer
            answer = {"error": traceback.format_exc()}
        data = json.dumps(answer).encode()
        while data:
            data = data[os.write(write, data) :]
        code = 0
    finally:
        os._exit(code)


def _all_of(read: int, seconds: float) -> bytes:
    """What the child writes until it ends. Raises OutOfTimeError."""
    end = time.monotonic() + seconds
    found = b""
    while True:
        ready, _, _ = select.select([read], [], [], max(end - time.monotonic(), 0))
        if not ready:
            raise OutOfTimeError(f"{seconds:.0f} s")
        part = os.read(read, 1 << 16)
        if not part:
            return found
        found += part


def _end(pid: int) -> None:
    """Kill the child's group: itself, if it still runs, and what it left behind."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
