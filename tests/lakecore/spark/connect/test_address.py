"""Addresses of Spark Connect servers, and what is named by which setting."""

from __future__ import annotations

import socket

import pytest

from lakecore.errors import InvalidInputError, UnavailableError, UnsupportedError
from lakecore.spark.connect.address import check_address, check_client, check_server, without_parameters
from lakecore.spark.connect.executor import ConnectExecutor
from lakecore.spark.engine import new_start_check, spark_executor
from lakecore.spark.executor import SparkExecutor
from lakecore.spark.java import find_spark
from lakecore.spark.master import refuse_connect


@pytest.mark.parametrize(
    "master",
    [
        "sc://host",
        "sc://host:15002",
        "sc://host:1/",
        "sc://[::1]:15002",
        "sc://h:443/;use_ssl=true;token=a%3Db",
    ],
)
def test_an_address_has_a_host(master: str) -> None:
    check_address(master)
    assert isinstance(spark_executor(master), ConnectExecutor)


@pytest.mark.parametrize(
    "master", ["sc://", "sc://:15002", "sc://h:x", "sc://h:70777", "sc://h/x", "sc://h/;k"]
)
def test_what_is_no_address_is_refused(master: str) -> None:
    with pytest.raises(InvalidInputError, match=r"is no address; write sc://host:15002"):
        spark_executor(master)


def test_messages_have_no_token() -> None:
    assert without_parameters("sc://h:443/;use_ssl=true;token=s3cret") == "sc://h:443"
    with pytest.raises(InvalidInputError) as refused:
        check_address("sc://h:99999/;token=s3cret")
    assert "s3cret" not in str(refused.value)
    with pytest.raises(UnsupportedError, match="sc://h: it is so; use local") as unsupported:
        refuse_connect("sc://h/;token=s3cret", "it is so")
    assert "s3cret" not in str(unsupported.value)


def test_a_server_is_named_by_the_master_a_property_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert isinstance(spark_executor(), SparkExecutor)
    assert new_start_check() is find_spark
    for key in ("spark.remote", "spark.master"):
        executor = spark_executor("local[2]", {key: "sc://h", "a": "b"})
        assert isinstance(executor, ConnectExecutor)
        assert executor._conf == {"a": "b"}
    monkeypatch.setenv("SPARK_REMOTE", "sc://h")
    assert isinstance(spark_executor(), ConnectExecutor)
    assert new_start_check() is check_client
    assert isinstance(spark_executor("local[2]"), SparkExecutor)
    monkeypatch.setenv("SPARK_REMOTE", "local[2]")
    assert isinstance(spark_executor(), SparkExecutor)


def test_who_does_not_answer_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setattr("lakecore.spark.connect.address._ANSWER_SECONDS", 0.2)
        with pytest.raises(UnavailableError, match=rf"127\.0\.0\.1:{port} does not answer .*within 0.2 s"):
            check_server(f"sc://127.0.0.1:{port}/;user_id=me")
    with pytest.raises(
        UnavailableError, match=r"does not answer \(failed to connect .*\); check its address"
    ):
        check_server("sc://127.0.0.1:1")


def test_without_the_client_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ImportError("[PACKAGE_NOT_INSTALLED] zstandard >= 0.25.0 must be installed\nand more")

    monkeypatch.setattr("pyspark.sql.connect.utils.check_dependencies", missing)
    with pytest.raises(
        InvalidInputError, match=r"zstandard >= 0.25.0 must be installed\): pip install 'lakecore"
    ):
        check_server("sc://127.0.0.1:1")
    monkeypatch.setattr("pyspark.__version__", "4.1.1")
    with pytest.raises(UnsupportedError, match=r"PySpark 4\.1\.1 has no client of Spark Connect"):
        check_server("sc://127.0.0.1:1")
