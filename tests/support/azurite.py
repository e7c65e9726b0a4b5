"""Azurite, Microsoft's emulator of Azure's blob storage, on a free port (tests/azurite; tools/setup.sh installs it)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

__all__ = ["Azurite", "azurite"]

HOME = Path(os.environ.get("AZURITE_HOME", Path.home() / ".cache" / "lakecore-azurite"))
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # every emulator's
CONTAINER = "lake"


@dataclass(frozen=True, slots=True)
class Azurite:
    """Options to reach it, and the root of a container that exists."""

    options: dict[str, str]
    port: int
    root: str = f"abfs://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net"


@contextmanager
def azurite() -> Iterator[Azurite]:
    """It keeps blobs in memory and forgets them at the end."""
    main = HOME / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    assert main.exists(), f"{main} is missing; run tools/setup.sh tests"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    command = ["node", str(main), "--blobHost", "127.0.0.1", "--blobPort", str(port), *flags]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            _await(port, process)
            _create_container(port)
            address = f"http://127.0.0.1:{port}/{ACCOUNT}"
            key = f"fs.azure.account.key.{ACCOUNT}.dfs.core.windows.net"
            yield Azurite({key: KEY, "lakecore.azure.endpoint": address}, port)
        finally:
            process.terminate()
            process.wait(30)


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "Azurite ended at its start"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("Azurite did not start within 30 s")


def _create_container(port: int) -> None:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "\n".join(
        [
            "PUT",
            *[""] * 11,
            *(f"{name}:{value}" for name, value in headers.items()),
            f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container",
        ]
    )
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    address = f"http://127.0.0.1:{port}/{ACCOUNT}/{CONTAINER}?restype=container"
    with urllib.request.urlopen(urllib.request.Request(address, method="PUT", headers=headers)) as answer:
        assert answer.status == 201
