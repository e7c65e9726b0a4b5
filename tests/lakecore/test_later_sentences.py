"""The sentences of public docstrings behind the first have a subject and a verb, but for notes with a label, and `Raises`."""

from __future__ import annotations

import pytest

from tests.lakecore.test_language import PACKAGES, attribute_docstrings, docstrings, modules
from tests.support.later_sentences import fragments


@pytest.mark.parametrize("folder", PACKAGES)
def test_later_sentences_are_sentences(folder: str) -> None:
    found = [
        f"{path}:{line} {name}: {sentence}"
        for path, tree in modules()
        if path.startswith(folder + "/")
        for name, line, text in (*docstrings(tree), *attribute_docstrings(tree))
        if not name.startswith("_")
        for sentence in fragments(text)
    ]
    assert found == [], "write a subject and a verb; verbs: tests/support/later_sentences.py"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Read a file. Holds one batch.", ["Holds one batch."]),
        ("Read a file. It holds one batch.", []),
        ("Read a file. Safe after `close`.", ["Safe after `close`."]),
        ("Read a file. Raises NotFoundError.", []),
        ("Read a file. Rule of the format: bytes without order.", []),
        ("Read a file.\n\nNone of other formats.", ["None of other formats."]),
        ("Read a file.\n\n- a list", []),
        ("Read a file. `a`: the first.", []),
        ("Of a file.", []),
    ],
)
def test_fragments_are_seen(text: str, expected: list[str]) -> None:
    assert list(fragments(text)) == expected
