"""What a command costs before it does anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakecore.cli.commands import MAINTENANCE, TABLES
from lakecore.cli.main import main

IMPORT_ALL = """
import pkgutil, importlib, sys
import lakecore
for module in pkgutil.walk_packages(lakecore.__path__, "lakecore."):
    if module.name != "lakecore.read.source.dataset":  # a kind of pyarrow's Dataset, whose module imports pandas
        importlib.import_module(module.name)
sys.exit("pandas" in sys.modules)
"""


def test_importing_lakecore_does_not_import_pandas() -> None:
    # pyarrow looks for pandas with its first array: no module may make one while it is imported.
    assert subprocess.run([sys.executable, "-c", IMPORT_ALL], check=False).returncode == 0


def test_help_imports_no_table_code() -> None:
    """The page that lists the commands imports the module of each."""
    script = (
        "import sys\nfrom lakecore.cli.main import main\nmain(['--help'])\n"
        "sys.exit(', '.join({'pyarrow', 'pandas', 'pyspark', 'numpy', 'lakecore.table'} & set(sys.modules)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_value_that_looks_like_a_command_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["--warehouse", str(tmp_path), "databases"])
        == main(["databases", "--warehouse", str(tmp_path)])
        == 0
    )
    assert main(["--catalog", "compact", "databases"]) == 1
    assert "No such command" not in capsys.readouterr().err


def test_every_command_is_listed_once() -> None:
    assert not set(TABLES) & set(MAINTENANCE)
