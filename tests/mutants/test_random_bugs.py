"""Random bugs: what is changed, what is never changed, and that a seed says which."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.catalogue import ROOT
from tests.mutants.choice import function_at
from tests.mutants.random_bugs import bugs, changes


def _changed(text: str) -> set[str]:
    return {text[:start] + new + text[end:] for start, end, new in changes(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a < b", {"x = a <= b"}),
        ("x = (a) not in (b)", {"x = (a) in (b)"}),
        ("x = a is not b", {"x = a is b"}),
        ("x = a and b", {"x = a or b"}),
        ("x = not a", {"x = a"}),
        ("x = 5", {"x = 6", "x = 4"}),
        ("x = True", {"x = False"}),
        ("x = f(a, b)", {"x = f(b, a)"}),
        ("x = min(a)", {"x = max(a)"}),
        ("x = a.any()", {"x = a.all()"}),
        ("x = a[0]", {"x = a[-1]", "x = a[1]"}),
        ("x = a[b:c]", {"x = a[(b) + 1:c]", "x = a[b:(c) - 1]"}),
        ("x = a if b else c", {"x = a if not (b) else c"}),
        ("f(a)", {"pass"}),
        ("x.y = a", {"pass"}),
        ("x += a", {"pass", "x -= a"}),
        ("raise Bad('1 < 2', 3)", {"pass"}),
        ("for x in a:\n    continue", {"for x in a:\n    pass"}),
        ("if a:\n    b = c", {"if not (a):\n    b = c"}),
        ("x = 'ä' + a", {"x = 'ä' - a"}),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_each_kind_of_bug(text: str, expected: set[str]) -> None:
    assert _changed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '"""A text, 1 < 2."""',
        "from a import b",
        "x: int | None = a",
        "def f(a: int | None = 3) -> int | None:\n    return a",
        "x = f'{a + 1}'",
        "x = zip(a, *b, strict=True)",
        "x = f(a, a)",
    ],
)
def test_what_no_test_could_notice_stays(text: str) -> None:
    assert _changed(text) == set()


def test_a_seed_says_which_bugs_and_each_is_code_in_one_place() -> None:
    folder = [ROOT / "lakecore" / "lsm"]
    found = bugs(folder, 7, 20)
    assert found == bugs(folder, 7, 20)
    assert found != bugs(folder, 8, 20)
    assert len({mutant.id for mutant in found}) == 20
    for mutant in found:
        text = (ROOT / mutant.file).read_text()
        assert mutant.applied(text) != text
        ast.parse(mutant.applied(text))


def test_a_small_file_has_no_more_than_it_has(tmp_path: Path) -> None:
    (tmp_path / "lakecore" / "a").mkdir(parents=True)
    path = tmp_path / "lakecore" / "a" / "b.py"
    path.write_text("def f(a):\n    return a < 2\n")
    found = bugs([path], 1, 100, tmp_path)
    assert {mutant.new for mutant in found} == {"<=", "not (a < 2)", "1", "3"}
    assert {mutant.area for mutant in found} == {"a"}
    assert {function_at(path.read_text(), mutant.place(path.read_text())) for mutant in found} == {"f"}
