"""Runs mutants: the battery of compactions, then tests until one fails. Results are kept and used again.

A result holds while what it depends on is the same: the file with the bug, and of tests those files that were run, of the
battery the code that compacts, proves and commits.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tests.mutants import battery
from tests.mutants.calls import CALLS, CallMap
from tests.mutants.cases import CASES
from tests.mutants.catalogue import ROOT, Mutant
from tests.mutants.children import DiedError, OutOfTimeError, forget_lakecore, in_child
from tests.mutants.choice import Wave, cases_of, waves
from tests.mutants.patch import NotPatchableError, patch
from tests.mutants.sandbox import Sandbox

__all__ = ["CACHE", "Result", "Runner"]

CACHE = ROOT / ".cache" / "mutants"
_COMPACTING = ("compact", "verify", "commit", "merge", "lsm", "read", "write", "store", "lookup", "index")
_ASIDE = ("maintain",)
"""Areas whose bugs no compaction meets."""
_TESTS_SECONDS = 300.0
_BATTERY_SECONDS = 240.0
_NO_TESTS = 5
_MOST_CASES = 16
_CODES = {0: "survived", 1: "caught", 2: "caught", 3: "caught"}

Result = dict[str, Any]


@dataclass(frozen=True)
class Runner:
    """`number` tells runners apart that work side by side, each with a copy of the tree in `cache`. `cases`: of the battery.
    `patience`: seconds that a test may take; one that a bug does not let end takes them twice."""

    number: int = 0
    cache: Path = CACHE
    root: Path = ROOT
    cases: tuple[str, ...] = tuple(CASES)
    patience: int = 120
    green: set[str] = field(default_factory=set)
    """Tests that passed without a bug in this run."""

    @cached_property
    def calls(self) -> CallMap:
        return CallMap(self.cache / CALLS.name)

    @cached_property
    def sandbox(self) -> Sandbox:
        """Of this process alone."""
        return Sandbox.create(self.cache / f"tree-{self.number}-{os.getpid()}", self.root)

    @property
    def red(self) -> frozenset[str]:
        """Tests that fail without a bug, as the last `--baseline` found: they tell nothing."""
        path = self.cache / "red.json"
        return frozenset(json.loads(path.read_text()) if path.exists() else ())

    @cached_property
    def fresh(self) -> Mapping[str, str]:
        """Text by path of test files that are younger than the record of calls, which does not know all of their tests:
        all of them where there is no record."""
        made = self.calls.made if self.calls.exists else 0.0
        found = (
            path for path in sorted((self.root / "tests").rglob("test_*.py")) if path.stat().st_mtime > made
        )
        return {str(path.relative_to(self.root)): path.read_text() for path in found}

    def close(self) -> None:
        """Remove the copy of the tree, if there is one."""
        if "sandbox" in self.__dict__:
            shutil.rmtree(self.sandbox.path, ignore_errors=True)

    @cached_property
    def tables(self) -> Path:
        """The battery's tables, made anew when the code that they depend on has changed."""
        digest = _digest(
            [
                *_sources(self.root, _COMPACTING),
                *(self.root / "tests/mutants" / f"{name}.py" for name in ("battery", "cases")),
            ]
        )
        folder = self.cache / f"tables-{digest}-{len(self.cases)}"
        if not (folder / "expected.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            work = partial(battery.make_tables, folder, self.root, self.cases)
            self._in_child(work, 900)
        return folder

    @cached_property
    def expected(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.tables / "expected.json").read_text())
        return found

    def battery(self, mutant: Mutant | None) -> Result:
        """The verdict of the battery: the worst of its cases, and why. `cases`: by verdict."""
        started = time.monotonic()
        names = list(self.expected) if mutant is None else self._cases(mutant)
        work = self.cache / f"work-{self.number}-{os.getpid()}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            outcomes = self._with(
                mutant, partial(battery.run_cases, self.tables, work, names), _BATTERY_SECONDS
            )
            verdicts = self._in_child(
                partial(battery.check_cases, work, self.expected, outcomes), _BATTERY_SECONDS
            )
        except (
            OutOfTimeError,
            DiedError,
            RuntimeError,
        ) as err:  # a bug in what every module imports, or no end
            return {"verdict": "error", "why": str(err)[-300:], "cases": {}, "seconds": _since(started)}
        finally:
            shutil.rmtree(work, ignore_errors=True)
        verdict = battery.worst(one["verdict"] for one in verdicts.values())
        why = next(
            (f"{name}: {one['why']}" for name, one in verdicts.items() if one["verdict"] == verdict), ""
        )
        cases: dict[str, list[str]] = {}
        for name, one in verdicts.items():
            cases.setdefault(one["verdict"], []).append(name)
        cases.pop("same", None)
        return {"verdict": verdict, "why": why, "cases": cases, "seconds": _since(started)}

    def tests(
        self, mutant: Mutant | None, found: Iterable[Wave] | None = None, *, most: int | None = None
    ) -> Result:
        """Whether a test fails: the first one that does, or how many did not.

        First the one that failed earlier, then at most so many waves. Where these were not all, or no test was chosen,
        nothing is known of a mutant that they do not catch.
        """
        started, passed = time.monotonic(), 0
        text = "" if mutant is None else (self.root / mutant.file).read_text()
        chosen = (
            list(found)
            if found is not None or mutant is None
            else [*self._earlier(mutant), *waves(mutant, text, self.calls, red=self.red, fresh=self.fresh)]
        )
        some = chosen[:most]
        for wave in some:
            tests = wave.tests
            while tests:
                verdict, failed = self._run(mutant, tests)
                if verdict == "survived":
                    break
                if mutant is None or "::" not in failed or self._tells(mutant, verdict, failed):
                    return {"verdict": verdict, "by": failed, "passed": passed, "seconds": _since(started)}
                tests = tuple(test for test in tests if test not in (failed, failed.partition("::")[0]))
            passed += len(tests)
        if len(some) < len(chosen) or not passed:
            return {"verdict": "unknown", "by": "", "passed": passed, "seconds": _since(started)}
        return {"verdict": "survived", "by": "", "passed": passed, "seconds": _since(started)}

    def _tells(self, mutant: Mutant, verdict: str, test: str) -> bool:
        """Whether the test fails again with the bug, and passes without it. One that does not is red from then on."""
        if self._run(mutant, (test,)) != (verdict, test):
            return False
        if test not in self.green and self._run(None, (test,))[0] != "survived":
            (self.cache / "red.json").write_text(json.dumps(sorted({*self.red, test}), indent=1))
            return False
        self.green.add(test)
        return True

    def _earlier(self, mutant: Mutant) -> list[Wave]:
        """The test that caught the mutant when something was not yet as it is."""
        path = self.cache / "results" / f"{mutant.id}.tests.json"
        test = json.loads(path.read_text())["by"] if path.exists() else ""
        return [Wave((test,))] if "::" in test and test not in self.red else []

    def _run(self, mutant: Mutant | None, tests: tuple[str, ...]) -> tuple[str, str]:
        try:
            code, failed = self._with(mutant, partial(_pytest, tests, self.patience), _TESTS_SECONDS)
        except OutOfTimeError:
            return "caught", "no end"
        except DiedError:
            return "caught", "the interpreter died"
        except RuntimeError as err:  # of pytest itself: nothing is known
            return "unknown", str(err)[-200:]
        return _CODES.get(code, "unknown"), failed

    def _with(self, mutant: Mutant | None, work: Callable[[], Any], seconds: float) -> Any:
        """`work` in a child that has the bug: in memory, or, where that cannot be, in a copy of the tree."""

        def patched() -> Any:
            if mutant is not None:
                try:
                    patch(mutant, self.root)
                except NotPatchableError as err:
                    return {"not patchable": str(err)}
            return {"done": work()}

        answer = self._in_child(patched, seconds)
        if "done" in answer:
            return answer["done"]
        with self.sandbox.mutated(mutant):
            return in_child(self.sandbox.path, partial(_elsewhere, work), seconds=seconds, log=self._log)

    def _in_child(self, work: Callable[[], Any], seconds: float) -> Any:
        return in_child(self.root, work, seconds=seconds, log=self._log)

    @property
    def _log(self) -> Path:
        return self.cache / f"log-{self.number}"

    def _cases(self, mutant: Mutant) -> list[str]:
        if mutant.area in _ASIDE:
            return []
        calls = {name: one["calls"] for name, one in self.expected.items()}
        return cases_of(mutant, (self.root / mutant.file).read_text(), calls)[:_MOST_CASES]

    def kept(self, mutant: Mutant, part: str) -> Result | None:
        """An earlier result that still holds."""
        path = self.cache / "results" / f"{mutant.id}.{part}.json"
        if not path.exists():
            return None
        result: Result = json.loads(path.read_text())
        if result.get("by") in self.red:
            return None
        return result if result["key"] == self._key(mutant, part, result) else None

    def keep(self, mutant: Mutant, part: str, result: Result) -> Result:
        path = self.cache / "results" / f"{mutant.id}.{part}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        done = {**result, "key": self._key(mutant, part, result)}
        path.write_text(json.dumps(done, indent=1))
        return done

    def _key(self, mutant: Mutant, part: str, result: Result) -> str:
        files = [self.root / mutant.file]
        if part == "battery":
            files += _sources(self.root, ("compact", "verify", "commit"))
        elif result["verdict"] == "caught" and "::" in result["by"]:
            files.append(self.root / result["by"].partition("::")[0])
        else:
            package = mutant.file.split("/")[1]
            files += sorted((self.root / "tests" / "lakecore" / package).rglob("*.py"))
        return f"{mutant.digest}-{_digest(path for path in files if path.exists())}"


def _elsewhere(work: Callable[[], Any]) -> Any:
    """In a child: with lakecore of the directory that it is in."""
    forget_lakecore()
    return work()


def _pytest(tests: tuple[str, ...], patience: int) -> tuple[int, str]:
    """In a child: the exit code of pytest, and the first test that failed."""
    import pytest

    here = f"{Path.cwd()}{os.sep}"
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        if not str(getattr(sys.modules[name], "__file__", "")).startswith(here):
            del sys.modules[name]  # they are to be those of the directory that the child is in
    chosen = _Chosen(tests)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-o", f"timeout={patience}", "--no-header", "--tb=line"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported already
    code = int(pytest.main([*options, "-m", "not slow and not alone", *chosen.files], plugins=[chosen]))
    code = 0 if code == _NO_TESTS else code
    return code, chosen.failed[0] if chosen.failed else f"exit code {code}"


class _Chosen:
    """Runs some tests of some files, in the order in which they are given; those that are gone are left out."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._rank = {test: number for number, test in enumerate(tests)}
        paths = dict.fromkeys(test.partition("::")[0] for test in tests)
        self.files = [path for path in paths if Path(path).exists()]
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        wanted = [item for item in items if self._place(item.nodeid) is not None]
        items[:] = sorted(wanted, key=lambda item: self._place(item.nodeid))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def _place(self, test: str) -> int | None:
        """Of the test, or of its whole file."""
        return self._rank.get(test, self._rank.get(test.partition("::")[0]))


def _sources(root: Path, packages: Iterable[str]) -> list[Path]:
    return [path for package in packages for path in sorted((root / "lakecore" / package).rglob("*.py"))]


def _digest(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(str(path.name).encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _since(started: float) -> float:
    return round(time.monotonic() - started, 1)
