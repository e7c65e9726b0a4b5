"""The connection: its fields become a warehouse and storage options."""

from __future__ import annotations

import importlib
import json
import sqlite3
from pathlib import Path

import pytest

from lakecore import errors
from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.get_provider_info import get_provider_info
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.operators.compact import CompactTableOperator
from lakecore_airflow.sensors.snapshots import NewSnapshotSensor
from lakecore_airflow.tasks.identity import commit_identity
from tests.operators.conftest import FakeTaskInstance, context
from tests.support.scripted_server import scripted_server


def _connect(monkeypatch: pytest.MonkeyPatch, **fields: object) -> LakeHook:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_TEST", json.dumps({"conn_type": "lakecore"} | fields))
    return LakeHook("lake_test")


def test_fields_become_options(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = _connect(
        monkeypatch,
        host="s3://bucket/wh",
        login="key",
        password="secret",
        extra={
            "s3_endpoint": "http://127.0.0.1:9",
            "s3_path_style": True,
            "spark_master": "spark://m:7077",
            "x": "y",
        },
    )
    assert hook.warehouse() == "s3://bucket/wh"
    assert hook.options() == {
        "s3.endpoint": "http://127.0.0.1:9",
        "s3.path.style.access": "true",
        "s3.access-key": "key",
        "s3.secret-key": "secret",
    }
    assert hook.spark_master() == "spark://m:7077"


def test_fields_of_other_stores_become_their_options(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {
        "azure_account_key": "fs.azure.account.key",
        "azure_sas_token": "fs.azure.sas.fixed.token",
        "gcs_key_file": "fs.gs.auth.service.account.json.keyfile",
        "oss_endpoint": "fs.oss.endpoint",
        "oss_access_key_id": "fs.oss.accessKeyId",
        "oss_access_key_secret": "fs.oss.accessKeySecret",
    }
    documented = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
    form = get_provider_info()["connection-types"][0]["conn-fields"]
    for field, option in fields.items():
        hook = _connect(monkeypatch, host="gs://lake/wh", extra={field: "value"})
        log_in = {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"} if field == "gcs_key_file" else {}
        assert hook.options() == {option: "value", **log_in}
        assert f"`{option}`" in documented
        secret = form[field]["schema"].get("format") == "password"
        assert secret is (field in ("azure_account_key", "azure_sas_token", "oss_access_key_secret"))


def test_a_connection_opens_a_jdbc_catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    extra = {"metastore": "jdbc", "catalog_uri": f"jdbc:sqlite:{tmp_path}/names.db", "catalog_key": "mine"}
    hook = _connect(monkeypatch, host=str(tmp_path), extra=extra)
    catalog = hook.catalog()
    catalog.create_database("shop")
    catalog.create_table("shop.orders", {"columns": ["v INT"]})
    assert catalog.list_tables("shop") == ["orders"]
    [(name,)] = sqlite3.connect(tmp_path / "names.db").execute(
        "select table_name from paimon_tables where catalog_key = 'mine'"
    )
    assert name == "orders"
    assert hook.test_connection()[0]
    assert CompactTableOperator(task_id="c", table="shop.orders", lake_conn_id="lake_test").execute(context())
    no_uri = _connect(monkeypatch, host=str(tmp_path), extra={"metastore": "jdbc"})
    assert no_uri.test_connection() == (
        False,
        "catalog option uri is missing; write jdbc:sqlite:/PATH, jdbc:postgresql://HOST[:PORT]/DATABASE, "
        "or jdbc:mysql://HOST[:PORT]/DATABASE for MySQL and MariaDB",
    )


def test_a_table_may_be_named_with_its_connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    catalog = _connect(monkeypatch, host=str(tmp_path)).catalog()
    catalog.create_table("d.t", {"columns": ["v INT"]})
    catalog.create_table("d.t.u", {"columns": ["v INT"]})
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps({"conn_type": "http"}))
    for table, expected in (
        ("lake_test.d.t", ("lake_test", "d.t")),
        ("other.d.t", ("lake_default", "other.d.t")),
        ("d.t.u", ("lake_default", "d.t.u")),
        ("lake_test.t", ("lake_default", "lake_test.t")),
    ):
        for task in (
            CompactTableOperator(task_id="c", table=table),
            NewSnapshotSensor(task_id="s", table=table),
        ):
            task.render_template_fields(context())
            assert (task.lake_conn_id, task.table) == expected
    task = CompactTableOperator(task_id="c", table="lake_test.d.{{ params.x }}", params={"x": "t"})
    task.render_template_fields({**context(), "params": {"x": "t"}})
    assert task.execute(context())["table"] == "d.t"


def test_the_password_of_the_database_is_concealed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    concealed: list[object] = []
    monkeypatch.setattr("lakecore_airflow.secrets.mask_secret", concealed.append)
    extra = {
        "metastore": "jdbc",
        "jdbc_user": "me",
        "jdbc_password": "hidden-1",
        "warehouse_user": "ann",
        "warehouse_password": "hidden-3",
        "catalog_uri": "jdbc:postgresql://u:hidden-2@h/d",
    }
    options = _connect(monkeypatch, host=str(tmp_path), extra=extra).options()
    assert (options["jdbc.user"], options["jdbc.password"]) == ("me", "hidden-1")
    assert (options["user"], options["password"]) == ("ann", "hidden-3")
    assert {"hidden-1", "hidden-2", "hidden-3"} <= set(concealed)


def test_a_connection_opens_a_rest_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    concealed: list[object] = []
    monkeypatch.setattr("lakecore_airflow.secrets.mask_secret", concealed.append)
    with scripted_server() as script:
        extra = {
            "metastore": "rest",
            "catalog_uri": script.address,
            "token_provider": "bear",
            "catalog_token": "hidden-token",
            "service_location": "/lake/own",
            "catalog_options": json.dumps({"header.X-Team": "a", "data-token.enabled": True}),
        }
        hook = _connect(monkeypatch, host="lake", extra=extra)
        script.answers = [(200, "{}"), (200, '{"databases": ["d"]}')]
        assert hook.test_connection() == (True, "lake is reachable: 1 database(s)")
        assert script.seen == ["GET /v1/config?warehouse=lake", "GET /v1/databases"]
        assert script.headers[1]["Authorization"] == "Bearer hidden-token"
        assert script.headers[1]["X-Team"] == "a"
        script.answers = [(401, "{}")]
        worked, text = hook.test_connection()
    assert not worked
    assert "valid token" in text
    assert "hidden-token" not in text
    assert "hidden-token" in concealed
    assert hook.options()["data-token.enabled"] == "true"
    assert hook.options()["lakecore.service-location"] == "/lake/own"


def test_a_connection_names_a_warehouse_on_hdfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its properties are among the further options; nobody listens at the port."""
    extra = {"catalog_options": json.dumps({"hadoop.dfs.client.failover.max.attempts": 0})}
    worked, text = _connect(monkeypatch, host="hdfs://127.0.0.1:1/lake", extra=extra).test_connection()
    assert not worked
    assert "hdfs://127.0.0.1:1/lake" in text
    assert "check the address" in text


@pytest.mark.parametrize("text", ["{", "[]", '{"a": {"b": "hidden-1"}}'])
def test_further_options_that_are_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    hook = _connect(monkeypatch, host="lake", extra={"metastore": "rest", "catalog_options": text})
    worked, message = hook.test_connection()
    assert not worked
    assert "JSON object of texts" in message
    assert "hidden-1" not in message


def test_a_connection_may_be_a_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, wanted in (("false", {}), ("true", {"s3.path.style.access": "true"})):
        monkeypatch.setenv(
            "AIRFLOW_CONN_LAKE_TEST", f"lakecore://s3%3A%2F%2Fbucket%2Fwh/?s3_path_style={text}"
        )
        hook = LakeHook("lake_test")
        assert (hook.warehouse(), hook.options()) == ("s3://bucket/wh", wanted)


def test_the_test_button_tells_what_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    good, text = _connect(monkeypatch, host=str(tmp_path)).test_connection()
    assert (good, str(tmp_path) in text) == (True, True)
    bad, text = _connect(monkeypatch, host=str(tmp_path / "nowhere")).test_connection()
    assert (bad, "nowhere" in text) == (False, True)
    assert "no database yet" in _connect(monkeypatch, host=str(tmp_path)).test_connection()[1]
    for master, problem in (
        ("sprak://nope", "no master of Spark"),
        ("spark://127.0.0.1:1", "does not answer"),
        ("spark://nope", "is not HOST:PORT"),
        ("sc://", "is no address"),
    ):
        hook = _connect(monkeypatch, host=str(tmp_path), extra={"spark_master": master})
        assert (hook.test_connection()[0], problem in hook.test_connection()[1]) == (False, True), master
    for master in ("local", "local[*]", "local[2]", "local[2, 4]", "yarn", "k8s://https://host:6443"):
        assert _connect(monkeypatch, host=str(tmp_path), extra={"spark_master": master}).test_connection()[0]
    empty, text = _connect(monkeypatch).test_connection()
    assert (empty, text.startswith("the connection names no warehouse")) == (False, True)


def test_the_test_button_asks_the_server_of_spark_connect(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hook = _connect(monkeypatch, host=str(tmp_path), extra={"spark_master": "sc://127.0.0.1:1"})
    good, text = hook.test_connection()
    assert (good, "server sc://127.0.0.1:1 does not answer" in text) == (False, True)


def test_the_test_button_looks_whether_this_is_a_lake_that_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hook = _connect(monkeypatch, host=str(tmp_path))
    assert hook.test_connection()[0]
    assert list((tmp_path / ".lakecore").iterdir()) == [], "the small file is deleted"
    (tmp_path / "holidays.jpg").write_text("")
    assert "such as holidays.jpg: is this the warehouse?" in hook.test_connection()[1]
    (tmp_path / ".lakecore").rmdir()
    (tmp_path / ".lakecore").write_text("this is no directory")
    good, text = hook.test_connection()
    assert (good, "it can only be read: " in text) == (True, True)


def test_the_provider_names_classes_that_exist() -> None:
    [connection] = get_provider_info()["connection-types"]
    module, _, name = connection["hook-class-name"].rpartition(".")
    hook = getattr(importlib.import_module(module), name)
    assert hook.conn_type == connection["connection-type"]
    assert hook.hook_name == connection["hook-name"]


def test_the_commit_identity_is_the_same_on_every_try_and_differs_between_tasks() -> None:
    first = commit_identity(FakeTaskInstance())
    assert first == commit_identity(FakeTaskInstance())
    others = [FakeTaskInstance(run_id="run2"), FakeTaskInstance(map_index=0), FakeTaskInstance(task_id="b")]
    assert len({first, *map(commit_identity, others)}) == 4
    user, identifier = first
    assert user == "lakecore-dag-task"
    assert 0 <= identifier < 2**53
    assert identifier % 1024 == 0


FAILS = {
    "AlreadyExistsError",
    "CorruptDataError",
    "ExpiredError",
    "InvalidInputError",
    "InvalidOptionError",
    "NotFoundError",
    "OnHoldError",
    "PrivilegeError",
    "ProofError",
    "UnsupportedError",
}
IS_RETRIED = {"BusyError", "CommitConflictError", "CommitUncertainError", "UnavailableError"}


def test_every_error_of_lakecore_either_fails_a_task_or_is_retried() -> None:
    kinds = {name: getattr(errors, name) for name in errors.__all__ if name.endswith("Error")}
    assert set(kinds) - {"LakeError"} == FAILS | IS_RETRIED, "a new class of error needs its decision"
    for name, kind in kinds.items():
        raised = kind("thing", "problem") if name in ("CorruptDataError", "ProofError") else kind("thing")
        wanted: type[Exception] = AirflowFailException if name in FAILS else kind
        with pytest.raises(wanted, match="thing") as caught, airflow_errors():
            raise raised
        assert type(caught.value) is wanted
    with pytest.raises(ZeroDivisionError), airflow_errors():
        raise ZeroDivisionError


def test_the_table_of_errors_in_the_documentation_is_complete() -> None:
    text = (Path(__file__).parents[2] / "docs" / "airflow.md").read_text()
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `") and "Error`" in line]
    named = {name.strip().strip("`"): what.strip() for names, what in rows for name in names.split(",")}
    assert named == dict.fromkeys(FAILS, "fails at once") | dict.fromkeys(IS_RETRIED, "is retried")
