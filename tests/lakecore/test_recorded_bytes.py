"""The same steps make the same files, byte for byte, as when they were recorded.

Who means to change bytes on storage records them again with `pytest --rewrite tests/lakecore/test_recorded_bytes.py` and says in
the commit which cases changed and why; CONTRIBUTING.md tells how to see what differs. Time and ids come from a clock of the
test. Leases, ledgers and holds below `<warehouse>/.lakecore` belong to no table and are left out.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.datadriven import Case, check
from tests.support.recorded import digest, files_after

DATA = Path(__file__).parent / "testdata" / "recorded_bytes"


@pytest.mark.parametrize("path", sorted(DATA.glob("*.txt")), ids=lambda path: path.stem)
def test_the_same_steps_make_the_same_files(path: Path, rewrite: bool) -> None:
    check(path, run, rewrite)


def run(case: Case) -> str:
    if case.command == "libraries":
        return "\n".join(f"{name} {version(name)}" for name in case.input)
    return digest(files_after(case.args["name"], case.input))
