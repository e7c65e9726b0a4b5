"""The examples of docs/catalogs.md run as they stand, in a directory of their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs/catalogs.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_of_the_guide_run(number: int, tmp_path: Path) -> None:
    code = EXAMPLES[number].replace("/tmp/catalogs", str(tmp_path / "catalogs"))
    exec(compile(code, "docs/catalogs.md", "exec"), {})


def test_the_guide_has_examples() -> None:
    assert EXAMPLES
