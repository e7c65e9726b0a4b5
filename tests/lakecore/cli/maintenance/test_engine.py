"""Where the command `compact` runs its units when nobody has chosen."""

from __future__ import annotations

import json

import pytest

from lakecore.errors import UnavailableError
from tests.lakecore.cli.conftest import Cli


@pytest.fixture
def table(cli: Cli) -> str:
    """A table with six sorted runs."""
    definition = {
        "columns": ["k INT NOT NULL"],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "write-only": "true"},
    }
    assert cli("create", "d.t", "--schema", json.dumps(definition)).code == 0
    for _ in range(6):
        assert cli("write", "d.t", "-", stdin='{"k": 1}').code == 0
    return "d.t"


def test_a_small_table_starts_no_session(cli: Cli, table: str) -> None:
    (report,) = cli("compact", table, "--json").json
    assert (report["engine"], report["snapshot"], report["error"]) == ("local", 7, None)


def test_a_dry_run_starts_none_either(cli: Cli, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakecore.spark.java.find_java", lambda: pytest.fail("not asked"))
    assert cli("compact", table, "--dry-run", "--json").json[0]["snapshot"] is None


@pytest.mark.parametrize("option", [("--master", "local[1]"), ("--conf", "spark.x=1"), ("--engine", "spark")])
def test_who_names_spark_gets_spark(
    cli: Cli, table: str, option: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_java() -> None:
        raise UnavailableError("there is no java here")

    monkeypatch.setattr("lakecore.spark.session.find_java", no_java)
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    answer = cli("compact", table, *option)
    assert answer.code == 1
    assert "there is no java here" in answer.out


def test_follow_without_java_runs_here(cli: Cli, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java() -> None:
        raise UnavailableError("there is no java here")

    monkeypatch.setattr("lakecore.spark.java.find_java", no_java)
    answer = cli("compact", table, "--follow", "--rounds", "1", "--interval", "0.1")
    assert answer.code == 0, answer.err
    assert len(cli("read", "d.t$snapshots").rows) == 7
