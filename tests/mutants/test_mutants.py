"""The list of mutants fits the code, and the runner tells bugs that matter from changes that do not."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.calls import CALLS, CallMap
from tests.mutants.catalogue import ROOT, Mutant, MutantError, mutants, parse
from tests.mutants.choice import function_at, waves
from tests.mutants.runner import Runner
from tests.mutants.sandbox import Sandbox

ALL = mutants()


@pytest.mark.parametrize("area", sorted({mutant.area for mutant in ALL}))
def test_every_mutant_applies_to_exactly_one_place(area: str) -> None:
    for mutant in ALL:
        if mutant.area == area:
            changed = mutant.applied((ROOT / mutant.file).read_text())
            ast.parse(changed)


def test_the_list_is_long_and_covers_every_area() -> None:
    areas = [mutant.area for mutant in ALL]
    assert len(areas) >= 200
    assert {
        "compact",
        "merge",
        "lsm",
        "read",
        "write",
        "commit",
        "index",
        "copy",
        "maintain",
        "store",
        "catalog",
        "fs",
        "scan",
        "encode",
    } == set(areas)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("== a.py\n\nm: says\n- x\n", "not a mutant"),
        ("m: says\n- x\n+ y\n", "not a mutant"),
        ("== a.py\n\nm says\n- x\n+ y\n", "not a mutant"),
        ("== a.py\n\nm: says\n- x\n+ x\n", "nothing changes"),
    ],
)
def test_lists_that_say_nothing_are_refused(text: str, problem: str) -> None:
    with pytest.raises(MutantError, match=problem):
        list(parse(text, "area"))


def test_a_piece_must_be_in_one_place() -> None:
    (plain,) = parse("== a.py\n\nm: says\n- x = 1\n+ x = 2\n", "area")
    (behind,) = parse("== a.py\n\nm: says\n@ def two\n- x = 1\n+ x = 2\n", "area")
    assert plain.applied("x = 1\n") == "x = 2\n"
    text = "def one():\n    x = 1\ndef two():\n    x = 1\n"
    with pytest.raises(MutantError, match="is 2 times in"):
        plain.applied(text)
    with pytest.raises(MutantError, match="is 0 times in"):
        plain.applied("y = 1\n")
    assert behind.applied(text) == "def one():\n    x = 1\ndef two():\n    x = 2\n"
    with pytest.raises(MutantError, match="is not behind"):
        behind.applied("def one():\n    x = 1\ndef two():\n    pass\n")


def test_the_function_around_a_place() -> None:
    text = (
        "A = 1\n\nclass B:\n    x = 2\n\n    @c\n    def d(self):\n        def e():\n            return 3\n"
    )
    places = {number: text.index(number) for number in "123"}
    assert {number: function_at(text, place) for number, place in places.items()} == {
        "1": None,
        "2": None,
        "3": "B.d",
    }


def test_tests_that_call_the_function_come_first_by_nearness_and_time(tmp_path: Path) -> None:
    lines = [{"name": "lakecore/lsm/full.py:pick"}, {"name": "lakecore/lsm/full.py:other"}]
    far, near, slow = (
        "tests/jobs/test_a.py::a",
        "tests/lakecore/lsm/test_b.py::b",
        "tests/lakecore/lsm/test_full.py::c",
    )
    lines += [{"test": far, "seconds": 0.1, "calls": [0]}, {"test": near, "seconds": 0.2, "calls": [0]}]
    lines += [
        {"test": slow, "seconds": 30.0, "calls": [0, 1]},
        {"test": "t::d", "seconds": 0.1, "calls": [1]},
    ]
    path = tmp_path / "calls.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    mutant = next(mutant for mutant in ALL if mutant.file == "lakecore/lsm/full.py")
    found = waves(mutant, (ROOT / mutant.file).read_text(), CallMap(path))
    assert [wave.tests for wave in found] == [(near, far), (slow,)]


def test_a_sandbox_has_the_bug_and_the_tree_does_not(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    sandbox = Sandbox.create(tmp_path / "copy", root)
    copy = sandbox.path / "a.py"
    time = copy.stat().st_mtime
    mutant = Mutant(id="m", area="a", file="a.py", says="", old="1", new="2")
    with sandbox.mutated(mutant):
        assert copy.read_text() == "x = 2\n"
        assert copy.stat().st_mtime != time  # a compiled file of the same size must not be taken for it
    assert (copy.read_text(), copy.stat().st_mtime) == ("x = 1\n", time)
    assert (root / "a.py").read_text() == "x = 1\n"
    (root / "a.py").write_text("x = 3\n")
    (root / "b.py").write_text("")
    Sandbox.create(tmp_path / "copy", root)
    assert copy.read_text() == "x = 3\n"
    (root / "b.py").unlink()
    Sandbox.create(tmp_path / "copy", root)
    assert not (sandbox.path / "b.py").exists()


SMALL = """\
== lakecore/lsm/full.py

small-caught: nothing is ever compacted fully
- return Pick(len(runs), max_level, "full")
+ return None

== lakecore/merge/sorted_merge.py

small-refused: the oldest row of a key stays
@ def _merge(
- np.append(~order.same, True)
+ np.append(True, ~order.same)

== lakecore/lsm/universal.py

small-survivor: another name for a rule
- reason = "total-size"
+ reason = "whole-size"
"""


def test_the_runner_tells_what_is_caught_and_what_is_refused(tmp_path: Path) -> None:
    """In a process of its own: this one has imported lakecore."""
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "small.txt").write_text(SMALL)
    cache = tmp_path / "cache"
    cache.mkdir()
    tests = [f"tests/lakecore/lsm/{name}" for name in ("test_append.py::test_append", "test_universal.py")]
    names = [
        "lakecore/lsm/full.py:pick",
        "lakecore/lsm/universal.py:early_full",
        "lakecore/merge/sorted_merge.py:_merge",
    ]
    lines: list[dict[str, object]] = [{"began": 1e12}]  # every test file is older: none is run whole
    lines += [{"name": name} for name in names]
    lines += [
        {"test": tests[0], "seconds": 0.1, "calls": [1, 2]},
        {"test": tests[1], "seconds": 0.5, "calls": [0]},
    ]
    (cache / CALLS.name).write_text("\n".join(map(json.dumps, lines)))
    folders = [
        "--lists",
        str(tmp_path / "lists"),
        "--cache",
        str(cache),
        "--figures",
        str(tmp_path / "figures"),
    ]
    command = [sys.executable, "-m", "tests.mutants", *folders, "--cases", "sequence_full"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "operators")))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "figures" / "mutants.json").read_text())["figures"]
    assert figures["areas"]["small"]["tests"] == {"caught": 1, "survived": 2}
    assert [one["id"] for one in figures["survived_tests"]] == ["small-refused", "small-survivor"]
    assert figures["areas"]["small"]["battery"] == {"changed": 1, "refused": 1, "not run": 1}, done.stdout
    assert figures["wrong_rows"] == []
    kept = [Runner(0, cache).kept(mutant, "tests") for mutant in mutants(tmp_path / "lists")]
    assert [None if one is None else one["by"].partition("[")[0] for one in kept] == [
        "tests/lakecore/lsm/test_universal.py::test_universal", "", ""
    ]  # fmt: skip


def test_without_a_record_of_calls_tests_that_name_the_module_run_and_a_bug_that_none_meets_is_unknown(
    tmp_path: Path,
) -> None:
    (tmp_path / "lakecore").mkdir()
    (tmp_path / "lakecore" / "one.py").write_text("def total(n):\n    return n + 1\n")
    (tmp_path / "tests").mkdir()
    test = tmp_path / "tests" / "test_one.py"
    test.write_text("from lakecore import two\n")
    mutant = Mutant(id="one", area="small", file="lakecore/one.py", says="a sum", old="n + 1", new="n - 1")
    assert Runner(0, tmp_path / "cache", tmp_path).tests(mutant)["verdict"] == "unknown"
    test.write_text("from lakecore import one\n")
    runner = Runner(0, tmp_path / "cache", tmp_path)
    text = (tmp_path / mutant.file).read_text()
    assert [wave.tests for wave in waves(mutant, text, runner.calls, fresh=runner.fresh)] == [
        ("tests/test_one.py",)
    ]
