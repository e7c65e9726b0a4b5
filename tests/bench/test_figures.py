"""Figures are written with their circumstances, and the pages show what the files say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.bench.figures import FIGURES, ROOT, conditions, write_figures
from tests.bench.readme import PAGES, TABLES, with_figures

MEASURED = {"commit", "dirty", "date", "command", "machine", "load_before", "versions", "note"}


def repository(folder: Path) -> Path:
    """A repository with one commit of one file."""
    named = ["-c", "user.name=n", "-c", "user.email=e"]
    (folder / "code.py").write_text("1\n")
    for command in (["init", "-q"], ["add", "."], [*named, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    return folder


def test_pages_show_the_figures_of_the_files() -> None:
    text = "".join((ROOT / page).read_text() for page in PAGES)
    assert with_figures(text) == text
    assert all(f"<!-- figures: {name} -->" in text for name in TABLES)


def test_table_is_replaced_and_the_text_around_it_stays() -> None:
    text = "before\n<!-- figures: read -->\nold\n<!-- end of figures: read -->\nafter\n"
    made = with_figures(text)
    assert made.startswith("before\n<!-- figures: read -->\n| reading |")
    assert made.endswith("<!-- end of figures: read -->\nafter\n")
    assert "old" not in made


def test_table_that_nobody_makes_is_refused() -> None:
    with pytest.raises(ValueError, match="no table of figures is called 'speed'; tables are compact"):
        with_figures("<!-- figures: speed -->\n<!-- end of figures: speed -->")


@pytest.mark.parametrize("path", sorted(FIGURES.glob("*.json")), ids=lambda path: path.stem)
def test_committed_figures_tell_their_circumstances(path: Path) -> None:
    found = json.loads(path.read_text())
    assert found["name"] == path.stem
    assert set(found["measured"]) == MEASURED
    assert (found["measured"]["commit"] is None) == bool(found["measured"]["note"])
    assert found["figures"]
    assert f"`{path.name}`" in (FIGURES / "README.md").read_text()


def test_conditions_tell_the_commit_and_whether_the_tree_differs_from_it(tmp_path: Path) -> None:
    root = repository(tmp_path)
    clean = conditions(["1.4.2"], root)
    assert set(clean) == MEASURED
    assert clean["dirty"] is False
    assert len(clean["commit"]) == 40
    assert clean["machine"]["memory_bytes"] > 1 << 20
    assert clean["versions"]["paimon"] == ["1.4.2"]
    (root / "docs" / "figures").mkdir(parents=True)
    (root / "docs" / "figures" / "read.json").write_text("{}")
    assert conditions(root=root)["dirty"] is False
    (root / "code.py").write_text("2\n")
    assert conditions(root=root)["dirty"] is True


def test_conditions_outside_a_repository_are_unknown(tmp_path: Path) -> None:
    found = conditions(root=tmp_path)
    assert (found["commit"], found["dirty"]) == (None, None)


def test_figures_are_written_in_place_of_older_ones(tmp_path: Path) -> None:
    measured = conditions(root=tmp_path)
    for count in (1, 2):
        path = write_figures("race", measured, {"commits": count}, tmp_path / "new")
    assert json.loads(path.read_text()) == {"name": "race", "measured": measured, "figures": {"commits": 2}}
    assert [one.name for one in path.parent.iterdir()] == ["race.json"]
