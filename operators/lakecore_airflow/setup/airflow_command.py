"""This module runs Airflow's own command: it reads and writes connections and pools of Airflow's database."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakecore.errors import InvalidInputError, NotFoundError, UnavailableError, mask_secrets

__all__ = ["AirflowCommand", "find_airflow"]

_TIMEOUT_S = 180
_SHOWN_LINES = 3


def find_airflow(environ: Mapping[str, str]) -> AirflowCommand:
    """Find the command on PATH, else beside this Python. Raises NotFoundError."""
    places = (environ.get("PATH", os.defpath), str(Path(sys.executable).parent))
    executable = next(filter(None, (shutil.which("airflow", path=place) for place in places)), None)
    if executable is None:
        raise NotFoundError(
            "there is no command `airflow` on PATH: activate the environment of Airflow, or install it with "
            "pip install 'lakecore[airflow,spark]'"
        )
    return AirflowCommand(executable, environ)


@dataclass(frozen=True, slots=True)
class AirflowCommand:
    """This is the command `airflow` of one environment."""

    executable: str
    environ: Mapping[str, str]

    def check_provider(self) -> None:
        """Check that Airflow's environment has lakecore. Raises InvalidInputError."""
        if Path(self.executable).parent == Path(sys.executable).parent:
            return  # it is the environment of this process
        if all(one.get("package_name") != "lakecore" for one in self._json("providers", "list")):
            raise InvalidInputError(
                f"the environment of {self.executable} has no lakecore: install it there with "
                "pip install 'lakecore[airflow,spark]'"
            )

    def dags_folder(self) -> str:
        """Return Airflow's DAG folder."""
        lines = self._run("config", "get-value", "core", "dags_folder").splitlines()
        if not lines:
            raise UnavailableError("Airflow names no DAG folder: give --dags-folder")
        return lines[-1].strip()

    def connection(self, conn_id: str) -> dict[str, Any] | None:
        """Return a connection, from wherever Airflow reads it; None if there is none."""
        rows = self._json("connections", "get", conn_id, missing="Connection not found")
        if not rows:
            return None
        extra = rows[0].get("extra_dejson") or {}
        return rows[0] | {"extra": _mapping(extra)}

    def pool_slots(self, pool: str) -> int | None:
        """Return how many slots a pool has; None if there is no such pool."""
        rows = [one for one in self._json("pools", "list") if one.get("pool") == pool]
        return int(rows[0]["slots"]) if rows else None

    def write_connection(self, conn_id: str, connection: Mapping[str, Any], *, replace: bool) -> None:
        """Write a connection, with `replace` in place of the one with that id. Its secrets go through a file
        that only this user can read, and never over the command line, which everybody can see.
        """
        with tempfile.TemporaryDirectory(prefix="lakecore-") as folder:
            path = Path(folder) / "connection.json"
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({conn_id: connection}, file)
            secrets = _values_of(connection)
            arguments = ("connections", "import", str(path), *(("--overwrite",) if replace else ()))
            output = self._run(*arguments, secrets=secrets)
        if f"Imported connection {conn_id}" not in output:  # Airflow's exit code is 0 then, too
            raise UnavailableError(
                f"Airflow did not store the connection {conn_id!r}: {_end_of(output, secrets)}"
            )

    def write_pool(self, pool: str, slots: int) -> None:
        """Make a pool, or change the one of that name."""
        self._run("pools", "set", pool, str(slots), "Tasks of lakecore that run at the same time")

    def _json(self, *arguments: str, missing: str = "") -> list[dict[str, Any]]:
        """Return the list that Airflow writes, perhaps after lines of a log. Raises UnavailableError."""
        output = self._run(*arguments, "--output", "json", missing=missing)
        lines = output.splitlines(keepends=True)
        for number, line in enumerate(lines):
            if line.startswith("["):
                with suppress(ValueError):
                    rows, _ = json.JSONDecoder().raw_decode("".join(lines[number:]))
                    if all(isinstance(row, dict) for row in rows):
                        return list(rows)
        if missing and not output:
            return []
        raise UnavailableError(f"airflow {' '.join(arguments)} answered no JSON")

    def _run(self, *arguments: str, missing: str = "", secrets: Iterable[str] = ()) -> str:
        """Return what Airflow writes; nothing when it fails with `missing`. Raises UnavailableError, without
        `secrets`.
        """
        words = f"airflow {' '.join(arguments[:2])}"
        try:
            process = subprocess.run(
                [self.executable, *arguments],
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as err:
            raise UnavailableError(
                f"{words} did not answer within {_TIMEOUT_S} s: does its database answer?"
            ) from err
        except OSError as err:
            raise UnavailableError(f"{self.executable} cannot be run: {err.strerror}") from err
        if process.returncode == 0:
            return process.stdout
        if missing and missing in process.stdout + process.stderr:
            return ""
        raise UnavailableError(
            f"{words} failed: {_end_of(process.stderr or process.stdout, secrets)} "
            "(a new Airflow needs `airflow db migrate` first)"
        )


def _end_of(output: str, secrets: Iterable[str]) -> str:
    """Return the last lines of an output, without secrets: the database's errors have the values."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    text = mask_secrets(" / ".join(lines[-_SHOWN_LINES:]))
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "****")
    return text or "no output"


def _values_of(connection: Mapping[str, Any]) -> set[str]:
    """Return the values of a connection that may be secret: all but its type and its warehouse."""
    extra = connection.get("extra", {})
    values = {connection.get("login"), connection.get("password"), *extra.values()}
    with suppress(ValueError, AttributeError):
        values |= set(json.loads(extra.get("catalog_options", "{}")).values())
    return {str(value) for value in values if value}


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = {}
    return dict(value) if isinstance(value, Mapping) else {}
