"""What can be said of the files of docker/ without building an image: `make compose-test` builds and runs them."""

from __future__ import annotations

import base64
import importlib.util
import io
import re
import stat
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import boto3
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


demo_lake, keep_platform = script("demo_lake"), script("keep_platform")
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


def test_driver_and_executors_have_the_same_packages() -> None:
    spark, airflow = pins(DOCKER / "locks" / "spark.lock"), pins(DOCKER / "locks" / "airflow.lock")
    assert "pyspark" in spark
    assert spark.items() <= airflow.items()


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


@pytest.mark.parametrize("name", OURS + ONCE)
def test_our_containers_may_write_only_where_they_must(name: str) -> None:
    service = compose()["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service


@pytest.mark.parametrize("name", OURS)
def test_our_services_are_watched_bounded_and_started_again(name: str) -> None:
    service = compose()["services"][name]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["mem_limit"]
    assert service["restart"] == "unless-stopped"


def test_only_the_pages_have_a_port_and_by_default_on_the_loopback() -> None:
    ports = {name: service["ports"] for name, service in compose()["services"].items() if "ports" in service}
    assert ports == {"api-server": ["${LAKECORE_BIND:-127.0.0.1}:${LAKECORE_PORT:-8080}:8080"]}


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
