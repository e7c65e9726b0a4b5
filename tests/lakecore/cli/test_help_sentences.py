"""The help of every option has a verb, mostly an imperative: `Print only these columns`, not `Only these columns`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.main import get_command

from lakecore.cli import main
from tests.support.grammar import has_main_verb
from tests.support.later_sentences import fragments

BEGINNINGS = (
    *(
        "Accept",
        "Allow",
        "Also",
        "Append",
        "Apply",
        "Begin",
        "Choose",
        "Clients",
        "Commit",
        "Delete",
        "Drop",
        "End",
    ),
    *(
        "Examine",
        "Expire",
        "Give",
        "Go",
        "Keep",
        "Leave",
        "Let",
        "List",
        "Listen",
        "Make",
        "More",
        "Name",
        "Neither",
    ),
    *(
        "Order",
        "Print",
        "Read",
        "Refuse",
        "Remove",
        "Reserve",
        "Restore",
        "Run",
        "Serve",
        "Set",
        "Start",
        "Tag",
    ),
    *("Take", "Use", "Wait", "Work", "Write", "Begin"),
    *("Compute", "Create", "Do", "Update", "Exclude", "Record", "Report", "Resume", "Select", "Show"),
)
"""First words that are imperatives, or begin a sentence whose verb the lists for docstrings lack."""


def helps() -> Iterator[tuple[str, str]]:
    command = get_command(main._app([]))
    for name, one in command.commands.items():  # type: ignore[attr-defined]
        for option in one.params:
            if text := getattr(option, "help", None):
                yield f"{name} {option.opts[0]}", text


def without_verb(text: str) -> bool:
    first = text.split()[0].strip("`")
    return not (first in BEGINNINGS or has_main_verb(text)) or bool(list(fragments(text)))


def test_every_option_is_explained_with_a_verb() -> None:
    texts = list(helps())
    assert len(texts) > 200
    assert [f"{name}: {text}" for name, text in texts if without_verb(text)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Only these columns: a,b.", True),
        ("Snapshot id.", True),
        ("Print only these columns: a,b.", False),
        ("Do nothing if the table exists.", False),
        ("Where units run.", True),
    ],
)
def test_fragments_are_seen(text: str, expected: bool) -> None:
    assert without_verb(text) is expected
