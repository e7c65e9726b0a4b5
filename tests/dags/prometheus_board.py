"""Prometheus scrapes a running Airflow as in docker/compose.yaml, and has series for each query of the board of Grafana.

It needs Debian's package `prometheus`, so `make prometheus-test` runs it and `make test` does not.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakecore.cli.main import main
from tests.support.golden import golden_table
from tools.airflow_server import AirflowServer, free_ports

pytestmark = pytest.mark.slow

DOCKER = Path(__file__).parents[2] / "docker"
TOKEN = "token-of-the-metrics"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with one table and a survey."""
    source = golden_table("g1.a_pk_dedup_l0")
    shutil.copytree(source.path, tmp_path / "lake" / "metered.db" / source.table)
    assert main(["--warehouse", str(tmp_path / "lake"), "survey"]) == 0
    return tmp_path / "lake"


@pytest.fixture
def airflow(lake: Path, tmp_path: Path) -> Iterator[AirflowServer]:
    """An Airflow without DAGs, whose connection is the lake."""
    (tmp_path / "dags").mkdir()
    environment = {
        "AIRFLOW_CONN_LAKE_DEFAULT": json.dumps({"conn_type": "lakecore", "host": str(lake)}),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW__LAKECORE__METRICS_TOKEN": TOKEN,
    }
    with AirflowServer(tmp_path / "airflow", environment) as server:
        yield server


@pytest.fixture
def prometheus(airflow: AirflowServer, tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes Airflow by the script of the stack, with its files in a folder of the test."""
    [port] = free_ports(1)
    for name in ("prometheus.sh", "prometheus.yml"):
        text = (DOCKER / "metrics" / name).read_text()
        text = text.replace("/tmp/", f"{tmp_path}/").replace("=/prometheus", f"={tmp_path}/data")
        text = text.replace("=:9090", f"=127.0.0.1:{port}").replace(": 60s", ": 2s").replace(": 20s", ": 2s")
        (tmp_path / name).write_text(text)
    env = os.environ | {
        "LAKECORE_METRICS_TOKEN": TOKEN,
        "LAKECORE_METRICS_TARGET": airflow.url.removeprefix("http://"),
    }
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(["sh", tmp_path / "prometheus.sh"], env=env, stdout=log, stderr=log)
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def series(address: str, query: str) -> list[dict[str, Any]]:
    url = f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        body = json.load(answer)
    assert body["status"] == "success", body
    return list(body["data"]["result"])


def test_each_query_of_the_board_has_series(airflow: AirflowServer, prometheus: str) -> None:
    def scraped() -> bool:
        try:
            return bool(series(prometheus, "lakecore_tables > 0"))
        except OSError:
            return False

    airflow.api.wait("a scrape", scraped, 60)
    board = json.loads((DOCKER / "grafana" / "lakes.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) > 8
    for query in queries:
        assert series(prometheus, query.replace("$lake", ".*")), query
    [tables] = series(prometheus, "sum(lakecore_tables)")
    assert tables["value"][1] == "1"
