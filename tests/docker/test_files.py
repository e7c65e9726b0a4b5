"""What can be said of the files of docker/ without building an image: `make compose-test` builds and runs them."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import os
import re
import stat
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import boto3
import pyroaring
import pytest
import yaml
from moto import mock_aws

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"


def script(name: str) -> Any:
    """A program of docker/, which is no package: the name belongs to a library."""
    spec = importlib.util.spec_from_file_location(name, DOCKER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo_lake, keep_platform, strip_libraries = map(script, ("demo_lake", "keep_platform", "strip_libraries"))
OURS = (
    "api-server",
    "scheduler",
    "dag-processor",
    "triggerer",
    "spark-master",
    "spark-worker-1",
    "spark-worker-2",
)
ONCE = ("demo-lake", "airflow-init", "lakecore")
METRICS = ("prometheus", "grafana")


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DOCKER / "compose.yaml").read_text()))


def pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^ \\;]+)", path.read_text(), re.MULTILINE))


def settings(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(LAKECORE_[A-Z0-9_]+)=(.*)$", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["cli", "spark", "airflow", "build"])
def test_an_image_has_the_versions_that_the_tests_ran_with(name: str) -> None:
    tested, lock = pins(ROOT / "requirements.lock"), pins(DOCKER / "locks" / f"{name}.lock")
    assert len(lock) > 3
    assert {
        package: version for package, version in lock.items() if tested.get(package, version) != version
    } == {}


@pytest.mark.parametrize("name", ["cli", "spark", "airflow"])
def test_a_lock_has_what_the_extras_of_its_command_require(name: str) -> None:
    text = (DOCKER / "locks" / f"{name}.lock").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.findall(r"--extra (\S+)", text.splitlines()[1])
    wanted = [
        *project["dependencies"],
        *(one for extra in extras for one in project["optional-dependencies"][extra]),
    ]
    names = {re.match(r"[\w.-]+", one)[0].lower() for one in wanted if "python_version >= '3.12'" not in one}  # type: ignore[index]
    names.discard("pyspark-client")  # [tool.uv] replaces it by pyspark
    assert names - set(pins(DOCKER / "locks" / f"{name}.lock")) == set()


def test_the_image_of_airflow_can_submit_and_has_one_tree_of_pyspark() -> None:
    packages = pins(DOCKER / "locks" / "airflow.lock")
    assert {"apache-airflow-providers-apache-spark", "pyspark"} <= set(packages)
    assert "pyspark-client" not in packages


def test_driver_and_executors_have_the_same_packages() -> None:
    spark, airflow = pins(DOCKER / "locks" / "spark.lock"), pins(DOCKER / "locks" / "airflow.lock")
    assert "pyspark" in spark
    assert spark.items() <= airflow.items()


def test_the_image_of_airflow_has_a_celery_that_its_provider_can_import() -> None:
    packages = pins(DOCKER / "locks" / "airflow.lock")
    assert packages["apache-airflow-providers-celery"] == "3.26.0"
    assert packages["celery"] < "5.7", (
        "5.7 has no celery.backends.database.retry; try `make airflow-celery` first"
    )


def test_init_makes_secrets_once_that_only_the_user_reads(tmp_path: Path) -> None:
    file = tmp_path / "env"
    first = subprocess.run([DOCKER / "init.sh", file], check=True, capture_output=True, text=True)
    made = settings(file.read_text())
    assert set(made) == set(settings((DOCKER / ".env.example").read_text()))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(set(made.values())) == len(made)
    assert min(map(len, made.values())) >= 44
    assert len(base64.urlsafe_b64decode(made["LAKECORE_FERNET_KEY"])) == 32
    assert not any(value in first.stdout for value in made.values())
    before = file.read_bytes()
    again = subprocess.run([DOCKER / "init.sh", file], check=True, capture_output=True, text=True)
    assert "stays as it is" in again.stdout
    assert file.read_bytes() == before


def test_init_adds_the_secrets_of_a_later_release_to_a_file_that_is_there(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("LAKECORE_FERNET_KEY=mine\nLAKECORE_PORT=81\n")
    done = subprocess.run([DOCKER / "init.sh", file], check=True, capture_output=True, text=True)
    made = settings(file.read_text())
    assert (made["LAKECORE_FERNET_KEY"], made.pop("LAKECORE_PORT")) == ("mine", "81")
    assert set(made) == set(settings((DOCKER / ".env.example").read_text()))
    assert "LAKECORE_METRICS_TOKEN" in done.stdout
    assert not any(value in done.stdout for value in made.values() if value != "mine")


def test_every_setting_of_the_stack_has_a_default_or_is_a_secret_of_init() -> None:
    text = (DOCKER / "compose.yaml").read_text()
    without_default = set(re.findall(r"\$\{(LAKECORE_[A-Z0-9_]+)(?::\?[^}]*)?\}", text))
    secrets = set(settings((DOCKER / ".env.example").read_text()))
    assert without_default == secrets
    guarded = set(re.findall(r"\$\{(LAKECORE_[A-Z0-9_]+):\?", text))
    assert guarded == secrets  # an `up` without .env names what is missing


def test_every_setting_that_the_example_names_is_one_of_the_stack() -> None:
    example = (DOCKER / ".env.example").read_text()
    named = set(re.findall(r"^# (LAKECORE_[A-Z0-9_]+)=", example, re.MULTILINE))
    assert len(named) > 5
    assert all("${" + name in (DOCKER / "compose.yaml").read_text() for name in named)


@pytest.mark.parametrize("name", OURS + ONCE + METRICS)
def test_our_containers_may_write_only_where_they_must(name: str) -> None:
    service = compose()["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service


@pytest.mark.parametrize("name", OURS + METRICS)
def test_our_services_are_watched_bounded_and_started_again(name: str) -> None:
    service = compose()["services"][name]
    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert service["mem_limit"]
    assert service["restart"] == "unless-stopped"


def test_only_the_pages_have_a_port_and_by_default_on_the_loopback() -> None:
    ports = {name: service["ports"] for name, service in compose()["services"].items() if "ports" in service}
    assert ports == {
        "api-server": ["${LAKECORE_BIND:-127.0.0.1}:${LAKECORE_PORT:-8080}:8080"],
        "grafana": ["${LAKECORE_BIND:-127.0.0.1}:${LAKECORE_GRAFANA_PORT:-3000}:3000"],
    }


def test_each_image_ends_as_a_user_without_rights() -> None:
    stages = re.split(r"^FROM ", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
    final = {stage.split(" AS ")[1].split()[0]: stage for stage in stages if "ENTRYPOINT" in stage}
    assert set(final) == {"lakecore", "spark", "airflow"}
    assert {name: re.findall(r"^USER (.*)$", stage, re.MULTILINE) for name, stage in final.items()} == {
        name: ["50000:0"] for name in final
    }


def test_what_the_images_copy_is_in_the_context() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    sources = [
        part
        for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
        for part in line.split()[:-1]
    ]
    context = [
        line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    assert len(sources) > 8
    for source in sources:
        assert (ROOT / source).exists()
        assert any(source == part or source.startswith(part + "/") for part in context), source


@pytest.fixture
def store() -> Any:
    with mock_aws():
        yield boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")


@pytest.fixture
def archive(tmp_path: Path) -> str:
    path = tmp_path / "lake.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        for name in ("lake/shop.db/t/schema/schema-0", "lake/shop.db/t/snapshot/snapshot-1"):
            entry = tarfile.TarInfo(name)
            entry.size = len(name)
            tar.addfile(entry, io.BytesIO(name.encode()))
    return str(path)


def keys(store: Any) -> list[str]:
    return [entry["Key"] for entry in store.list_objects_v2(Bucket="lake").get("Contents", [])]


UPLOADED = ["w/shop.db/t/schema/schema-0", "w/shop.db/t/snapshot/snapshot-1"]


def test_the_demo_lake_is_uploaded_once(store: Any, archive: str) -> None:
    assert "uploaded 2 files" in demo_lake.fill(store, "lake", "w/", archive)
    assert keys(store) == UPLOADED
    store.delete_object(Bucket="lake", Key=UPLOADED[0])  # maintenance removes files, which must stay away
    assert "nothing was uploaded" in demo_lake.fill(store, "lake", "w/", archive)
    assert keys(store) == UPLOADED[1:]


@pytest.mark.parametrize("calls", range(4))
def test_an_upload_that_failed_begins_again(store: Any, archive: str, calls: int) -> None:
    class Failing:
        left = calls

        def __getattr__(self, name: str) -> Any:
            if name in ("put_object", "delete_object"):
                if not self.left:
                    raise OSError("lost")
                self.left -= 1
            return getattr(store, name)

    with pytest.raises(OSError, match="lost"):
        demo_lake.fill(Failing(), "lake", "w/", archive)
    assert "uploaded 2 files" in demo_lake.fill(store, "lake", "w/", archive)
    assert keys(store) == UPLOADED


def test_a_lake_of_somebody_else_is_left_alone(store: Any, archive: str) -> None:
    store.create_bucket(Bucket="lake")
    store.put_object(Bucket="lake", Key="w/crm.db/t/snapshot/snapshot-1", Body=b"1")
    assert "nothing was uploaded" in demo_lake.fill(store, "lake", "w/", archive)
    assert keys(store) == ["w/crm.db/t/snapshot/snapshot-1"]


def make_jar(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as jar:
        for name in (
            "a/B.class",
            "librocksdbjni-linux64.so",
            "librocksdbjni-win64.dll",
            "librocksdbjni-osx.jnilib",
        ):
            jar.writestr(name, b"x" * 5000)
    return path


def test_a_jar_keeps_its_classes_and_the_library_of_this_platform(tmp_path: Path) -> None:
    jar = make_jar(tmp_path / "rocksdbjni-1.jar")
    assert keep_platform.shrink(jar, "jni-linux64.so") > 0
    assert zipfile.ZipFile(jar).namelist() == ["a/B.class", "librocksdbjni-linux64.so"]


def test_a_jar_that_would_lose_all_libraries_ends_the_build(tmp_path: Path) -> None:
    jar = make_jar(tmp_path / "rocksdbjni-1.jar")
    before = jar.read_bytes()
    with pytest.raises(SystemExit, match="keep_platform"):
        keep_platform.shrink(jar, "linux-sparc")
    assert jar.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [jar.name]


def strip_program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let `strip -o SMALLER LIBRARY` be a script: $3 and $4 are the two paths."""
    program = folder / "bin" / "strip"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def test_a_library_loses_its_symbols_and_can_still_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packages"
    folder.mkdir()
    library = folder / "a.so"
    library.write_bytes(Path(pyroaring.__file__).read_bytes() + b"symbols" * 1000)
    (folder / "script.so").write_text("INPUT(-lm)")
    before = library.stat().st_size
    assert strip_libraries.can_load(library)
    strip_program(tmp_path, monkeypatch, 'head -c -7000 "$4" > "$3"')
    strip_libraries.main(folder)
    assert library.stat().st_size == before - 7000
    assert strip_libraries.can_load(library)
    assert sorted(path.name for path in folder.iterdir()) == ["a.so", "script.so"]


def test_a_library_that_needs_its_symbols_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packages"
    folder.mkdir()
    library = folder / "a.so"
    original = Path(pyroaring.__file__).read_bytes()
    library.write_bytes(original)
    library.chmod(0o755)
    strip_program(tmp_path, monkeypatch, 'head -c 5000 "$4" > "$3"')
    strip_libraries.main(folder)
    assert library.read_bytes() == original
    assert library.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in folder.iterdir()] == ["a.so"]


def test_airflow_is_set_up_by_the_command_of_lakecore_alone() -> None:
    service = compose()["services"]["airflow-init"]
    script = service["command"][-1]
    assert re.findall(r"lakecore airflow init [^;]*", script) == [
        'lakecore airflow init --keep-connection --spark-master "$$LAKECORE_SPARK_MASTER"'
    ]
    assert "connections" not in script
    assert service["environment"]["LAKECORE_CATALOG"] == "lake"
    with (DOCKER / "config" / "lakecore.toml").open("rb") as file:
        section = tomllib.load(file)["airflow"]
    assert (section["connections"], section["pool"]) == (["lake_default"], "lakecore")
    assert f"AIRFLOW_CONN_{section['submit']['conn_id'].upper()}" in service["environment"]


def test_prometheus_gets_the_token_in_a_file_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "prometheus"
    program.write_text('#!/bin/sh\nenv > "$OUT"; printf "%s\\n" "$@" >> "$OUT"\n')
    program.chmod(0o755)
    script = (DOCKER / "metrics" / "prometheus.sh").read_text().replace("/tmp/", f"{tmp_path}/")
    env = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "OUT": str(tmp_path / "out"),
        "LAKECORE_METRICS_TARGET": "api:8080",
    }
    command = ["sh", "-c", script, "/etc/lakecore/prometheus.sh"]
    assert subprocess.run(command, env=env, capture_output=True, check=False).returncode != 0
    subprocess.run(command, env=env | {"LAKECORE_METRICS_TOKEN": "s3cret"}, check=True)
    assert (tmp_path / "metrics-token").read_text() == "s3cret"
    assert stat.S_IMODE((tmp_path / "metrics-token").stat().st_mode) == 0o600
    assert json.loads((tmp_path / "metrics-target.json").read_text()) == [{"targets": ["api:8080"]}]
    assert "s3cret" not in (tmp_path / "out").read_text()
    assert "--config.file=/etc/lakecore/prometheus.yml" in (tmp_path / "out").read_text()


def test_grafana_has_the_prometheus_and_the_board_of_the_stack() -> None:
    services, folder = compose()["services"], DOCKER / "grafana" / "provisioning"
    [source] = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())["datasources"]
    [boards] = yaml.safe_load((folder / "dashboards" / "lakes.yaml").read_text())["providers"]
    grafana = services["grafana"]
    assert source["url"].removeprefix("$") in grafana["environment"]
    assert f"./grafana/lakes.json:{boards['options']['path']}/lakes.json:ro" in grafana["volumes"]
    scrape = yaml.safe_load((DOCKER / "metrics" / "prometheus.yml").read_text())["scrape_configs"][0]
    assert (scrape["metrics_path"], scrape["authorization"]["type"]) == ("/lakecore/metrics", "Bearer")
    with_token = [
        name for name, one in services.items() if "LAKECORE_METRICS_TOKEN" in str(one.get("environment"))
    ]
    assert with_token == ["api-server", "prometheus"]


def values() -> dict[str, Any]:
    return dict(yaml.safe_load((DOCKER / "kubernetes" / "values.yaml").read_text()))


def test_the_values_of_kubernetes_name_our_image_and_a_user_without_rights() -> None:
    chart = values()
    assert chart["images"]["airflow"]["repository"] == "lakecore-airflow"
    assert chart["airflowVersion"] == pins(DOCKER / "locks" / "airflow.lock")["apache-airflow"]
    pod, container = chart["securityContexts"]["pod"], chart["securityContexts"]["containers"]
    assert (pod["runAsNonRoot"], pod["runAsUser"], pod["runAsGroup"]) == (True, 50000, 0)
    assert (chart["uid"], chart["gid"]) == (50000, 0)
    assert container == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    for name in ("scheduler", "apiServer", "dagProcessor", "triggerer"):
        assert set(chart[name]["resources"]) == {"requests", "limits"}


def test_the_values_of_kubernetes_have_no_secret() -> None:
    chart = values()
    names = [
        chart["data"]["metadataSecretName"],
        *(chart[one] for one in chart if one.endswith("SecretName")),
    ]
    names += [one["secretName"] for one in chart["secret"]]
    assert len(names) == 7
    assert all(name.startswith("lakecore-") for name in names)
    assert not chart["createUserJob"]["enabled"]  # its default has a password
    assert not chart["postgresql"]["enabled"]  # the same
    keys = {key for key, _ in pairs(chart)}
    assert keys & {"password", "pass", "fernetKey", "jwtSecret", "apiSecretKey", "connection"} == set()


def pairs(document: Any) -> list[tuple[str, Any]]:
    found = [(key, value) for key, value in document.items()] if isinstance(document, dict) else []
    inner = [value for _, value in found] if found else document if isinstance(document, list) else []
    return found + [pair for value in inner for pair in pairs(value)]


def test_the_values_of_kubernetes_have_the_settings_of_the_dags() -> None:
    chart = values()
    [(name, settings_map)] = chart["extraConfigMaps"].items()
    [(file, text)] = yaml.safe_load(settings_map["data"]).items()
    section = tomllib.loads(text)["airflow"]
    variables = {one["name"]: one["value"] for one in chart["env"]}
    [mount] = [one for one in chart["volumeMounts"] if one["name"] == "settings"]
    assert variables["LAKECORE_CONFIG"] == f"{mount['mountPath']}/{file}"
    assert {"name": "settings", "configMap": {"name": name}} in chart["volumes"]
    assert f"airflow pools set {section['pool']} " in chart["migrateDatabaseJob"]["args"][-1]
    connections = {one["envName"] for one in chart["secret"]}
    assert {
        f"AIRFLOW_CONN_{one.upper()}" for one in (*section["connections"], section["submit"]["conn_id"])
    } <= connections
    dockerfile = (DOCKER / "Dockerfile").read_text()
    assert f"AIRFLOW__CORE__DAGS_FOLDER={variables['AIRFLOW__CORE__DAGS_FOLDER']}" in dockerfile
    assert f"AIRFLOW_HOME={chart['airflowHome']}" in dockerfile
