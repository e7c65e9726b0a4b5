"""Which functions of lakecore each test calls: a plugin of pytest that writes a line of JSON a test.

    python -m tests.mutants.calls [PYTEST ARGUMENTS]

runs the fast tests with it (some minutes), so that the runner knows which tests a bug can make fail. The file is
`.cache/mutants/calls.jsonl`; what it says of a test that has changed since may be out of date, which costs a wider
search, not a wrong answer.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.mutants.catalogue import ROOT

__all__ = ["CALLS", "CallMap", "function_name"]

CALLS = ROOT / ".cache" / "mutants" / "calls.jsonl"
_FAST = ["tests", "-m", "not slow and not alone", "-q", "-p", "no:cacheprovider"]


class Recorder:
    """Tells the functions of `root`/lakecore that were called since the last look."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}{os.sep}"
        self._prefix = f"{self._root}lakecore{os.sep}"
        self._codes: dict[int, CodeType] = {}  # by identity: to hash a code reads all of it

    def start(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    def stop(self) -> list[str]:
        """Names as `function_name` gives them, in order."""
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        codes, self._codes = self._codes, {}
        found = {
            function_name(code.co_filename.removeprefix(self._root), code.co_qualname)
            for code in codes.values()
            if code.co_filename.startswith(self._prefix)
        }
        return sorted(found)

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        self._codes[id(code)] = code


def function_name(file: str, qualified: str) -> str:
    """`lakecore/lsm/runs.py:level_runs`; functions within a function count as that function."""
    return f"{file}:{qualified.partition('.<locals>')[0]}"


class Plugin:
    """One line a test: its id, its seconds, the functions that it and its fixtures called."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w")
        self._file.write(json.dumps({"began": time.time()}) + "\n")
        self._recorder = Recorder(ROOT)
        self._names: dict[str, int] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        started = time.perf_counter()
        self._recorder.start()
        yield
        calls = [self._number(name) for name in self._recorder.stop()]
        seconds = round(time.perf_counter() - started, 3)
        self._file.write(json.dumps({"test": item.nodeid, "seconds": seconds, "calls": calls}) + "\n")

    def pytest_sessionfinish(self) -> None:
        self._file.close()

    def _number(self, name: str) -> int:
        """Names are written once, and stand as numbers from then on."""
        if name not in self._names:
            self._names[name] = len(self._names)
            self._file.write(json.dumps({"name": name}) + "\n")
        return self._names[name]


class CallMap:
    """What the file says: tests and their seconds by the functions that they call."""

    def __init__(self, path: Path = CALLS) -> None:
        self._path = path

    @property
    def exists(self) -> bool:
        return self._path.exists()

    @property
    def made(self) -> float:
        """When the tests began that it knows, in seconds since the epoch."""
        return self._lines[2]

    @cached_property
    def _lines(self) -> tuple[list[str], list[dict[str, Any]], float]:
        """Names of functions, tests, and when they were run."""
        names: list[str] = []
        began = 0.0
        tests: list[dict[str, Any]] = []
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            raw = json.loads(line)
            if "began" in raw:
                began = raw["began"]
            elif "name" in raw:
                names.append(raw["name"])
            else:
                tests.append(raw)
        return names, tests, began

    @cached_property
    def _by_function(self) -> Mapping[str, dict[str, float]]:
        names, tests, _ = self._lines
        found: dict[str, dict[str, float]] = {}
        for raw in tests:
            for number in raw["calls"]:
                found.setdefault(names[number], {})[raw["test"]] = raw["seconds"]
        return found

    def tests_of(self, file: str, qualified: str | None) -> dict[str, float]:
        """Tests that call the function, with their seconds; None: any function of the file."""
        if qualified is not None:
            return dict(self._by_function.get(f"{file}:{qualified}", {}))
        prefix = f"{file}:"
        found: dict[str, float] = {}
        for name, tests in self._by_function.items():
            if name.startswith(prefix):
                found |= tests
        return found


def main() -> None:
    arguments = sys.argv[1:] or _FAST
    partial = CALLS.with_suffix(".partial")
    code = pytest.main(arguments, plugins=[Plugin(partial)])
    partial.replace(CALLS)
    sys.exit(code)


if __name__ == "__main__":
    main()
