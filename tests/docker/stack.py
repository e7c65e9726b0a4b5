"""The stack of docker/compose.yaml on a machine without a docker daemon: podman, the network of the host, images built here.

What differs from `docker compose up`: all services are on the loopback, they are started in turn (podman 4 knows no conditions) and
their health checks are called from here; PostgreSQL is Debian's, and the S3 store is built from its Go module.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".cache" / "compose"
_STAND_INS = Path(__file__).with_name("stand_ins")
BASE = "localhost/lakecore-debian:bookworm"
_CA = Path("/etc/ssl/certs/ca-certificates.crt")
_STORE_MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
_IN_SLIM = "ca-certificates,usr-is-merged"
_NOT_IN_SLIM = "usrmerge perl 'perl-modules-*' 'libperl5*' 'lib*-perl' 'libgdbm*'"
"""Debian's image has the merged /usr without the package that merges it, which brings all of Perl (60 MB)."""
_NOTHING_OF_IT = ("usr/share/man/*", "usr/share/doc/*", "usr/share/locale/*")
_HOSTS = {
    "LAKECORE_POSTGRES_HOST": "127.0.0.1",
    "LAKECORE_S3_ENDPOINT": "http://127.0.0.1:7070",
    "LAKECORE_API_SERVER_HOST": "127.0.0.1",
    "LAKECORE_SPARK_HOST": "localhost",
    "LAKECORE_SCHEDULER_HOST": "localhost",
    "LAKECORE_TRIGGERER_HOST": "localhost",
    "LAKECORE_CLI_IMAGE": "localhost/lakecore-lakecore:local",
    "LAKECORE_IMAGE": "localhost/lakecore-airflow:local",
    "LAKECORE_POSTGRES_IMAGE": "localhost/lakecore-stand-in-postgres:latest",
    "LAKECORE_STORE_IMAGE": "localhost/lakecore-stand-in-store:latest",
}


def say(text: str) -> None:
    print(f"compose-test: {text}", flush=True)


def run(*command: str, env: dict[str, str] | None = None, check: bool = True, cwd: Path = ROOT) -> str:
    """Run a command and return what it wrote; RuntimeError with the end of it when it fails."""
    done = subprocess.run(
        command, env=os.environ | (env or {}), cwd=cwd, text=True, capture_output=True, check=False
    )
    if check and done.returncode:
        text = (done.stdout + done.stderr)[-4000:]
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{text}")
    return done.stdout


def build_images() -> None:
    """Debian from its packages, the three images, and the two that stand in for images of a registry."""
    if not run("buildah", "images", "-q", BASE, check=False).strip():
        _build_base()
    ca = {"LAKECORE_CA": str(_CA)} if _CA.exists() else {}
    run("docker/build.sh", env={"LAKECORE_BASE": BASE, **ca})
    store = WORK / "store"
    if not (store / "versitygw").exists():
        store.mkdir(parents=True, exist_ok=True)
        run("go", "install", _STORE_MODULE, env={"GOBIN": str(store), "CGO_ENABLED": "0"})
    _build_stand_in("postgres", _STAND_INS)
    _build_stand_in("store", store)


def _build_base() -> None:
    say("making a Debian 12 of its packages")
    WORK.mkdir(parents=True, exist_ok=True)
    tar = WORK / "debian.tar"
    without = [f"--dpkgopt=path-exclude=/{path}" for path in _NOTHING_OF_IT]
    purge = f'chroot "$1" apt-get purge -y -qq {_NOT_IN_SLIM}'
    options = ("--variant=minbase", f"--include={_IN_SLIM}", f"--customize-hook={purge}", *without)
    run("mmdebstrap", *options, "bookworm", str(tar))
    container = run("buildah", "from", "scratch").strip()
    run("buildah", "add", "-q", container, str(tar), "/")
    run("buildah", "commit", "-q", "--rm", container, BASE)


def _build_stand_in(name: str, context: Path) -> None:
    options = ("--isolation", "chroot", "--network", "host", "--layers", "--build-arg", f"BASE={BASE}")
    file = str(_STAND_INS / f"{name}.Dockerfile")
    run("buildah", "bud", *options, "-f", file, "-t", f"localhost/lakecore-stand-in-{name}", str(context))


class Stack:
    """The containers of one project of podman-compose, from the project's own compose file."""

    project = "lakecore-test"

    def __init__(self, config: str) -> None:
        """`config` is the text of lakecore.toml."""
        self.env_file = WORK / "env"
        self._file = WORK / "compose.yaml"
        folder = WORK / "config"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lakecore.toml").write_text(config)
        self.env_file.unlink(missing_ok=True)
        run("docker/init.sh", str(self.env_file))
        services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
        self._file.write_text(yaml.safe_dump(_on_host(services, folder), sort_keys=False))
        self.services: dict[str, Any] = services["services"]
        self._env = _HOSTS | {"CONTAINERS_CONF": str(_STAND_INS / "containers.conf")}

    @property
    def secrets(self) -> dict[str, str]:
        lines = [
            line.split("=", 1) for line in self.env_file.read_text().splitlines() if line[:1] not in ("#", "")
        ]
        return dict(line for line in lines if len(line) == 2)  # type: ignore[misc]

    def compose(self, *arguments: str) -> str:
        program = (
            sys.executable,
            "-m",
            "podman_compose",
            "-f",
            str(self._file),
            "--env-file",
            str(self.env_file),
        )
        libraries = {"PYTHONPATH": str(WORK / "python")}
        return run(*program, "-p", self.project, *arguments, env=self._env | libraries)

    def up(self, *services: str) -> None:
        self.compose("up", "-d", "--no-build", *services)

    def once(self, service: str) -> None:
        """Run a service that ends, and fail when it fails."""
        self.up(service)
        code = run("podman", "wait", self.name(service), env=self._env).strip()
        if code != "0":
            raise RuntimeError(f"{service} ended with {code}:\n{self.logs(service)[-3000:]}")

    def down(self, *, volumes: bool) -> None:
        self.compose("down", *(["-v"] if volumes else []))

    def name(self, service: str) -> str:
        return f"{self.project}_{service}_1"

    def podman(self, *arguments: str, check: bool = True) -> str:
        return run("podman", *arguments, env=self._env, check=check)

    def logs(self, service: str) -> str:
        done = subprocess.run(
            ("podman", "logs", self.name(service)),
            env=os.environ | self._env,
            text=True,
            capture_output=True,
            check=False,
        )
        return done.stdout + done.stderr

    def wait_healthy(self, *services: str, seconds: float = 240) -> None:
        """Call the health checks of the compose file until all pass."""
        until = time.monotonic() + seconds
        waiting = [service for service in services if "healthcheck" in self.services[service]]
        while waiting:
            waiting = [service for service in waiting if not self._healthy(service)]
            if waiting and time.monotonic() > until:
                raise TimeoutError(
                    f"not healthy after {seconds:.0f} s: {waiting}\n{self.logs(waiting[0])[-3000:]}"
                )
            time.sleep(1)

    def _healthy(self, service: str) -> bool:
        done = subprocess.run(
            ("podman", "healthcheck", "run", self.name(service)),
            env=os.environ | self._env,
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    def inspect(self, service: str) -> dict[str, Any]:
        return dict(json.loads(self.podman("inspect", self.name(service)))[0])


def _host_mount(mount: str, config: Path) -> str:
    """The mount of a compose file that lies elsewhere."""
    if "config:ro" in mount:
        return str(config) + ":/opt/airflow/config:ro"
    return str(ROOT / "docker") + mount[1:] if mount.startswith("./") else mount


def _on_host(document: dict[str, Any], config: Path) -> dict[str, Any]:
    """The compose document with all services on the network of the host, without conditions."""
    changed = json.loads(
        json.dumps({key: value for key, value in document.items() if not key.startswith("x-")})
    )
    changed.pop("name")
    for service in changed["services"].values():
        for key in ("depends_on", "ports", "build", "profiles"):
            service.pop(key, None)
        service["network_mode"] = "host"
        mounts = service.get("volumes", [])
        service["volumes"] = [_host_mount(mount, config) for mount in mounts]
    return dict(changed)
