"""`lakecore airflow init` with an Airflow that a script plays: what is made, kept and refused."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakecore.catalog.config import CatalogConfig
from lakecore.cli.main import main
from lakecore_airflow.connection_fields import connection_of
from lakecore_airflow.dags import lakecore_dags
from lakecore_airflow.hooks import LakeHook

SECRET = "hush-hush-key"
PLAYED = """#!{python}
import json, os, stat, sys
home = os.environ["PLAYED_AIRFLOW"]
state = json.load(open(home + "/state.json"))
words = sys.argv[1:]
with open(home + "/calls.jsonl", "a") as file:
    file.write(json.dumps(words) + "\\n")
if state.get("broken"):
    sys.exit("no such table: connection")
if words[:2] == ["providers", "list"]:
    print(json.dumps([{{"package_name": name}} for name in state["providers"]]))
elif words[:2] == ["config", "get-value"]:
    print("a warning of some library\\n" + home + "/dags")
elif words[:2] == ["connections", "get"]:
    if words[2] not in state["connections"]:
        sys.exit("Connection not found.")
    one = state["connections"][words[2]]
    print("[2026-11-24T20:00:00] {{a.py:1}} WARNING - a line of a log")
    print(json.dumps([{{**one, "extra_dejson": one.get("extra", {{}})}}]))
    print("another line")
elif words[:2] == ["pools", "list"]:
    print(json.dumps([{{"pool": name, "slots": str(n)}} for name, n in state["pools"].items()]))
elif words[:2] == ["connections", "import"]:
    state["mode"] = stat.S_IMODE(os.stat(words[2]).st_mode)
    state["file"] = words[2]
    found = json.load(open(words[2]))
    if state.get("meanwhile") and "--overwrite" not in words:
        print("Could not import connection: connection already exists.")
        sys.exit(0)
    if state.get("full"):
        sys.exit("disk full\\n[parameters: " + repr(found) + "]")
    if any(one.get("extra") == {{}} for one in found.values()):
        sys.exit("as Airflow 3.3, which cannot store an empty object")
    state["connections"].update(found)
    print("Imported connection " + next(iter(found)))
elif words[:2] == ["pools", "set"]:
    state["pools"][words[2]] = int(words[3])
if words[1] in ("import", "set"):
    json.dump(state, open(home + "/state.json", "w"))
"""


@dataclass
class Played:
    """The files of the played Airflow, and the command line."""

    home: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "state.json").read_text())
        return found

    def change(self, **values: Any) -> None:
        (self.home / "state.json").write_text(json.dumps(self.state | values))

    @property
    def calls(self) -> list[list[str]]:
        lines = (self.home / "calls.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def init(self, *arguments: str, code: int = 0, warehouse: str = "lake") -> str:
        """The states of the four steps, or the error."""
        given = ["--warehouse", str(self.home / warehouse), "--json", "airflow", "init", *arguments]
        assert main(given) == code
        out, err = self.capsys.readouterr()
        return err if code else " ".join(row["state"] for row in json.loads(out))

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (self.home / "dags").glob("*") if path.is_file()}


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Played:
    script = tmp_path / "bin" / "airflow"
    script.parent.mkdir()
    script.write_text(PLAYED.format(python=sys.executable))
    script.chmod(0o755)
    (tmp_path / "lake").mkdir()
    (tmp_path / "state.json").write_text(
        json.dumps({"providers": ["lakecore"], "connections": {}, "pools": {"default_pool": 128}})
    )
    for name in [name for name in os.environ if name.startswith(("LAKECORE_", "AIRFLOW"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("PLAYED_AIRFLOW", str(tmp_path))
    return Played(tmp_path, capsys)


def test_it_makes_four_things_once(played: Played) -> None:
    before = played.state
    assert played.init("--dry-run") == "would be created " * 3 + "would be created"
    assert (played.state, (played.home / "dags").exists()) == (before, False)
    assert played.init("--spark-master", "spark://m:7077") == "created created created created"
    made = played.state
    assert made["connections"]["lake_default"] == {
        "conn_type": "lakecore",
        "host": str(played.home / "lake"),
        "extra": {"spark_master": "spark://m:7077"},
    }
    assert made["pools"] == {"default_pool": 128, "lakecore": 2}
    files = played.files()
    assert sorted(files) == ["lakecore.toml", "lakecore_dags.py"]
    assert played.init() == "kept kept kept kept"
    assert (played.state, played.files()) == (made, files)
    written = [call for call in played.calls if call[1] in ("import", "set")]
    assert len(written) == 2, "the second run wrote nothing"


def test_the_files_make_dags_whose_tasks_are_in_the_pool(played: Played) -> None:
    played.init("--lake-conn-id", "archive", "--pool", "lake.tasks", "--dags-folder", str(played.home / "d"))
    dags = lakecore_dags(beside=played.home / "d" / "lakecore_dags.py")
    assert "lakecore_nightly__archive" in dags
    pools = {task.pool for dag in dags.values() for task in dag.tasks}
    assert pools == {"lake.tasks"}
    names: dict[str, Any] = {"__file__": str(played.home / "d" / "lakecore_dags.py")}
    exec(compile((played.home / "d" / "lakecore_dags.py").read_text(), "lakecore_dags.py", "exec"), names)
    assert set(dags) <= set(names)


def test_secrets_reach_airflow_in_a_file_of_this_user_alone(
    played: Played, monkeypatch: pytest.MonkeyPatch, seen: Callable[[dict[str, Any]], dict[str, str]]
) -> None:
    settings = played.home / "catalogs.toml"
    settings.write_text(
        f'[catalogs.prod]\nwarehouse = "{played.home / "lake"}"\n"s3.access-key" = "me"\n'
        f'"s3.secret-key" = "{SECRET}"\n"s3.region" = "eu-1"\n"s3.path.style.access" = "true"\n'
    )
    monkeypatch.setenv("LAKECORE_CONFIG", str(settings))
    played.change(full=True)
    assert main(["--catalog", "prod", "airflow", "init", "--overwrite"]) == 1
    out, err = played.capsys.readouterr()
    assert (SECRET in out + err, "disk full" in err) == (False, True)
    assert "[airflow]" not in settings.read_text()
    played.change(full=False)
    assert main(["--catalog", "prod", "airflow", "init", "--overwrite"]) == 0
    out, err = played.capsys.readouterr()
    assert SECRET not in out + err + json.dumps(played.calls)
    state = played.state
    assert stat.filemode(state["mode"] | stat.S_IFREG) == "-rw-------"
    assert not Path(state["file"]).exists()
    made = state["connections"]["lake_default"]
    assert (made["login"], made["password"]) == ("me", SECRET)
    options = {"s3.access-key": "me", "s3.secret-key": SECRET, "s3.region": "eu-1"}
    assert seen(made) == options | {"s3.path.style.access": "true"}, "the hook opens the same catalog"
    assert settings.read_text().startswith("[catalogs.prod]"), "the table airflow was added to the file"
    assert list(lakecore_dags("survey", beside=None)) == ["lakecore_survey"]
    again = main(["--catalog", "prod", "--json", "airflow", "init"])
    out, err = played.capsys.readouterr()
    assert again == 0, err
    rows = json.loads(out)
    assert (again, {row["state"] for row in rows}) == (0, {"kept"})


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], dict[str, str]]:
    """The options of the catalog that the hook makes of a connection."""

    def options(connection: dict[str, Any]) -> dict[str, str]:
        monkeypatch.setenv("AIRFLOW_CONN_SEEN", json.dumps(connection))
        return LakeHook("seen").options()

    return options


def test_what_leads_elsewhere_is_refused_before_anything_is_written(played: Played) -> None:
    (played.home / "other").mkdir()
    played.init("--dags-folder", str(played.home / "first"))
    before = played.state
    refused = played.init(code=1, warehouse="other")
    assert "there is already a connection 'lake_default'" in refused
    assert "--overwrite" in refused
    (played.home / "dags").mkdir()
    mine = played.home / "dags" / "lakecore_dags.py"
    mine.write_text("print('my own')")
    assert "makes no DAGs of lakecore" in played.init(code=1)
    toml = played.home / "dags" / "lakecore.toml"
    toml.write_text('[airflow]\nconnections = ["archive"]\n')
    assert 'add "lake_default" to `connections` there' in played.init("--overwrite", code=1)
    toml.write_text("[airflow")
    assert "is no TOML" in played.init(code=1)
    toml.write_text('[airflow]\nconnections = "lake_default"\n')
    assert "no list of connection ids" in played.init(code=1)
    toml.write_text("[airflow")
    assert "does not exist" in played.init(code=1, warehouse="gone")
    assert played.state == before
    assert played.files() == {"lakecore_dags.py": "print('my own')", "lakecore.toml": "[airflow"}
    toml.unlink()
    assert played.init("--overwrite", "--slots", "3", warehouse="other") == "changed changed created changed"
    assert played.state["connections"]["lake_default"]["host"] == str(played.home / "other")


def test_fields_that_a_person_added_stay(played: Played) -> None:
    connection = {
        "conn_type": "lakecore",
        "host": str(played.home / "lake"),
        "extra": {"price_core_hour": "0.05"},
    }
    played.change(connections={"lake_default": connection}, pools={"lakecore": 8})
    assert played.init("--spark-master", "yarn").split()[:2] == ["kept", "kept"]
    assert played.state["connections"]["lake_default"] == connection
    assert played.init("--spark-master", "yarn", "--overwrite").split()[:2] == ["changed", "changed"]
    extra = played.state["connections"]["lake_default"]["extra"]
    assert extra == {"price_core_hour": "0.05", "spark_master": "yarn"}


def test_a_connection_that_a_person_led_elsewhere_can_be_kept(played: Played) -> None:
    elsewhere = {"conn_type": "lakecore", "host": "s3://theirs/lake", "extra": {}}
    played.change(connections={"lake_default": elsewhere})
    assert "there is already a connection" in played.init(code=1)
    assert played.init("--keep-connection").split() == ["kept", "created", "created", "created"]
    assert played.state["connections"]["lake_default"] == elsewhere
    assert "contradict each other" in played.init("--keep-connection", "--overwrite", code=1)
    played.change(connections={})
    assert played.init("--keep-connection").split() == ["created", "kept", "kept", "kept"]
    assert played.state["connections"]["lake_default"]["host"] == str(played.home / "lake")


def test_a_folder_in_which_nothing_is_to_be_written_may_be_read_only(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.init()
    (played.home / "dags" / "lakecore.toml").unlink()
    monkeypatch.setenv("LAKECORE_CONFIG", str(played.home / "config.toml"))
    (played.home / "config.toml").write_text('[airflow]\nconnections = ["lake_default"]\npool = "lakecore"\n')
    may = os.access  # the tests may run as root
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK and may(path, mode))
    assert played.init() == "kept kept kept kept"
    (played.home / "dags" / "lakecore_dags.py").unlink()
    assert "no folder in which this user can write" in played.init(code=1)


def test_a_catalog_becomes_a_connection_with_the_same_options(
    seen: Callable[[dict[str, Any]], dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"metastore": "hive", "uri": "thrift://h:9083", "hive.opt": "1", "s3.access-key": "me"}
    made = connection_of(CatalogConfig("lake", options), "")
    assert made["host"] == str(tmp_path / "lake"), "Airflow has another working directory"
    assert seen(made) == options
    assert connection_of(CatalogConfig("", options), "")["host"] == "", "which is refused"
    assert connection_of(CatalogConfig("prod", {"metastore": "rest"}), "")["host"] == "prod", (
        "a server's name"
    )


def test_dag_files_of_earlier_set_ups_are_kept(played: Played) -> None:
    (played.home / "dags").mkdir()
    own = played.home / "dags" / "lake.py"
    own.write_text(
        'from lakecore_airflow.dags import lakecore_dags\nglobals().update(lakecore_dags("survey"))\n'
    )
    assert played.init() == "created created created kept"
    assert sorted(played.files()) == ["lake.py", "lakecore.toml"]


@pytest.mark.parametrize(
    ("arguments", "state", "problem"),
    [
        ((), {"providers": []}, "has no lakecore: install it there"),
        ((), {"broken": True}, "airflow db migrate"),
        ((), {"meanwhile": True}, "did not store the connection 'lake_default': Could not import"),
        ((), {"pools": "strange"}, "airflow pools list failed"),
        (("--slots", "0"), {}, "at least one slot"),
        (("--lake-conn-id", "-x;rm"), {}, "letters, digits"),
        (("--pool", 'a"b'), {}, "letters, digits"),
        (("--dags-folder", "/dev/null/dags"), {}, "--dags-folder"),
        (("--dags-folder", "/dev/null"), {}, "--dags-folder"),
    ],
)
def test_what_airflow_lacks_is_said_with_the_remedy(
    played: Played, arguments: tuple[str, ...], state: dict[str, Any], problem: str
) -> None:
    played.change(**state)
    before = played.state
    assert problem in played.init(*arguments, code=1)
    assert (played.state, (played.home / "dags").exists()) == (before, False)


def test_without_airflow_the_remedy_is_named(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(played.home))
    monkeypatch.setattr(sys, "executable", str(played.home / "python"))
    assert "pip install 'lakecore[airflow,spark]'" in played.init(code=1)
