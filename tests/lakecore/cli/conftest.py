"""The command line run in this process: `cli("read", "db.t").lines`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakecore.cli.main import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """JSON lines without `_kind`, in order of their text."""
        rows = [json.loads(line) for line in sorted(self.lines)]
        return [{key: value for key, value in row.items() if key != "_kind"} for row in rows]


Cli = Callable[..., Answer]


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def cli(warehouse: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Arguments as text; `stdin` and another `warehouse` by name."""
    for name in ("LAKECORE_WAREHOUSE", "LAKECORE_CATALOG", "LAKECORE_CONFIG", "LAKECORE_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, stdin: str | None = None, warehouse: Path | None = warehouse) -> Answer:
        capfdbinary.readouterr()
        if stdin is not None:
            monkeypatch.setattr("lakecore.cli.tables.input_files._stdin", lambda: io.BytesIO(stdin.encode()))
        prefix = [] if warehouse is None else ["--warehouse", str(warehouse)]
        code = main([*prefix, *arguments])
        out, err = capfdbinary.readouterr()
        return Answer(code, out.decode(), err.decode())

    return run


SCHEMA = {
    "columns": ["k BIGINT NOT NULL", {"name": "v", "type": "STRING"}, "d DECIMAL(10, 2)", "a ARRAY<INT>"],
    "primaryKeys": ["k"],
    "options": {"bucket": "1"},
}


@pytest.fixture
def keyed(cli: Cli) -> str:
    """A table with a primary key and one row."""
    assert cli("create", "db.t", "--schema", json.dumps(SCHEMA)).code == 0
    assert cli("write", "db.t", "-", stdin='{"k": 1, "v": "x", "d": "1.50", "a": [1, null]}').code == 0
    return "db.t"


@pytest.fixture
def parted(cli: Cli) -> str:
    """An append table with partitions a, b and one row in each."""
    schema = {"columns": ["p STRING", "n INT"], "partitionKeys": ["p"], "options": {"bucket": "-1"}}
    assert cli("create", "db.p", "--schema", json.dumps(schema)).code == 0
    rows = '{"p": "a", "n": 1}\n{"p": "b", "n": 2}'
    assert cli("write", "db.p", "-", "--no-compact", stdin=rows).code == 0
    return "db.p"
