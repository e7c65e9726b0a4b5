"""Java Paimon as a judge: one JVM per `Oracle`, spoken to line by line (tests/oracle/README.md has the commands)."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.golden import canonical

__all__ = ["Oracle", "OracleError", "findings"]

SCRIPT = Path(__file__).resolve().parents[1] / "oracle" / "oracle"


class OracleError(Exception):
    """Java Paimon threw: the exception's text, its cause and the end of the log."""


class Oracle:
    """Java Paimon of one version. The JVM starts with the first call; calls from several threads wait for each other."""

    def __init__(self, version: str = "1.4.2", env: Mapping[str, str] | None = None) -> None:
        self.version = version
        self._env = dict(env or {})
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._log = tempfile.NamedTemporaryFile(mode="w+", prefix="oracle-", suffix=".log")  # noqa: SIM115

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM; a later call starts a new one."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.communicate()  # end of input is the oracle's signal to exit
        self._log.truncate(0)

    def kill(self) -> None:
        """End the JVM with SIGKILL; a later call starts a new one."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.kill()
                process.communicate()

    def call(self, *args: object) -> Any:
        """Run one command; its JSON. Raises OracleError with Java's exception, RuntimeError when there was no
        answer: a Java that does not run is no Java that refuses.
        """
        with self._lock:
            reply = json.loads(self._ask(json.dumps([str(arg) for arg in args])) or "{}")
        command = " ".join(map(str, args))
        if not reply:
            raise RuntimeError(f"{command}: the oracle's JVM ended\n{self._tail()}")
        if not reply.get("ok"):
            raise OracleError(f"{command}: {reply.get('error')}; cause: {reply.get('cause')}\n{self._tail()}")
        return reply["result"]

    def read(
        self, warehouse: str | Path, table: str, *, options: Mapping[str, str] | None = None, **at: object
    ) -> list[str]:
        """Rows as canonical lines, sorted. `at`: snapshot=, tag= or branch=."""
        return canonical(self.call("read", warehouse, table, *_flags(at), *_options(options)))

    def fsck(self, warehouse: str | Path, table: str, *, deep: bool = True) -> dict[str, Any]:
        """What Java's check of every reachable file says; see `findings`."""
        report: dict[str, Any] = self.call("fsck", warehouse, table, *(["--deep"] if deep else []))
        return report

    def create(self, warehouse: str | Path, table: str, schema: Mapping[str, Any]) -> None:
        """`schema`: columns, partitionKeys, primaryKeys, options."""
        self.call("create", warehouse, table, json.dumps(schema))

    def write(
        self, warehouse: str | Path, table: str, rows: Iterable[Mapping[str, Any]], *flags: object
    ) -> Any:
        """One commit with `rows` (`_kind`, `_bucket` allowed)."""
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            file.flush()
            return self.call("write", warehouse, table, file.name, *flags)

    def compact(
        self,
        warehouse: str | Path,
        table: str,
        *,
        full: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> Any:
        return self.call("compact", warehouse, table, *(["--full"] if full else []), *_options(options))

    def _ask(self, line: str) -> str:
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return ""
        return process.stdout.readline()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(SCRIPT), "serve"],
            env=os.environ | {"PAIMON_VERSION": self.version} | self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
        )

    def _tail(self, lines: int = 25) -> str:
        return "\n".join(Path(self._log.name).read_text(errors="replace").splitlines()[-lines:])


def findings(report: Mapping[str, Any]) -> set[str]:
    """The complaints of an `fsck`: errors and orphans of either kind (by file name, whatever the warehouse)."""
    orphans: Sequence[str] = [*report["orphans"], *(report.get("paimonOrphanClean") or [])]
    return {f"error: {text}" for text in report["errors"]} | {
        f"orphan: {path.rsplit('/', 1)[-1]}" for path in orphans
    }


def _flags(named: Mapping[str, object]) -> list[object]:
    return [part for name, value in named.items() if value is not None for part in (f"--{name}", value)]


def _options(options: Mapping[str, str] | None) -> list[str]:
    return [part for key, value in (options or {}).items() for part in ("--option", f"{key}={value}")]
