"""A Spark master that does not answer is named at once, with the reason."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import load_catalog
from lakecore.errors import InvalidInputError, UnavailableError
from lakecore.spark.master import check_master
from tests.support.silent_port import silent_port


@pytest.fixture
def listening() -> Iterator[str]:
    """An address at which somebody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """One at which nobody does."""
    with silent_port() as port:
        yield f"127.0.0.1:{port}"


def test_a_master_that_answers_will_do(listening: str, silent: str) -> None:
    check_master(f"spark://{listening}")
    check_master(f"spark://{silent},{listening}")


def test_a_master_that_does_not_answer_is_named_with_the_reason(silent: str) -> None:
    with pytest.raises(UnavailableError, match=rf"spark://{silent} does not answer .*Connection refused"):
        check_master(f"spark://{silent}")
    with pytest.raises(UnavailableError, match=r"nowhere\.invalid:7077: "):
        check_master("spark://nowhere.invalid:7077")
    with pytest.raises(UnavailableError, match="7077: "):
        check_master(f"spark://{'x' * 300}:7077")


def test_a_master_that_never_answers_costs_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(address: tuple[str, int], timeout: float) -> socket.socket:
        assert timeout <= 5
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", late)
    with pytest.raises(UnavailableError, match="far:7077: there was no answer within 5 s"):
        check_master("spark://far:7077")


@pytest.mark.parametrize(
    "master", ["spark://", "spark://host", "spark://host:", "spark://:7077", "spark://h:70777", "spark://h:x"]
)
def test_what_is_no_address_is_refused(master: str) -> None:
    with pytest.raises(InvalidInputError, match="is not HOST:PORT"):
        check_master(master)


@pytest.mark.parametrize(
    "master", ["", "local[*]", "yarn", "k8s://https://10.0.0.1:6443", "local-cluster[2,1,1024]"]
)
def test_other_masters_are_sparks_to_find(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", None)
    check_master(master)


@pytest.mark.slow
def test_a_compaction_says_that_the_master_does_not_answer(tmp_path: Path, silent: str) -> None:
    """In one line, and without Spark's own."""
    table = load_catalog(tmp_path).create_table("d.t", {"columns": ["n INT"], "options": {"bucket": "-1"}})
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(json.dumps({"n": n}) for n in range(3)))
    command = [sys.executable, "-c", "import sys; from lakecore.cli.main import main; sys.exit(main())"]
    asked = ["--warehouse", str(tmp_path), "compact", table.name, "--strategy", "full", "--json"]
    for _ in range(2):
        written = ["--warehouse", str(tmp_path), "write", table.name, str(rows), "--no-compact"]
        assert subprocess.run([*command, *written], check=False).returncode == 0
    ended = subprocess.run(
        [*command, *asked, "--master", f"spark://{silent}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ended.returncode == 1
    (report,) = json.loads(ended.stdout)
    assert "does not answer" in report["error"]
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error: d.t: the Spark master spark://{silent} does not answer")
