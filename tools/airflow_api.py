"""What the demo and the tests ask of an Airflow's REST API."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

__all__ = ["ENDED", "AirflowApi", "BusyError", "LockedError"]

ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States that tasks and runs do not leave by themselves."""

Task = Mapping[str, Any]

_BACKFILL_TRIES_S = 60
_TRIGGER_TRIES_S = 180
_REPEATABLE = ("GET", "PATCH")
_TRIES = 3


class BusyError(RuntimeError):
    """Airflow answered that its database was busy: it may be asked again."""


class LockedError(BusyError):
    """The database refused the transaction of a request, which therefore changed nothing."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class AirflowApi:
    """One Airflow; a failed call raises RuntimeError with the answer's text, an unreachable one OSError."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._token = ""

    def login(self, user: str, password: str) -> None:
        self._token = self.call("POST", "/auth/token", {"username": user, "password": password})[
            "access_token"
        ]

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The decoded answer; `path` begins with /api/v2, /ui or /auth.

        On SQLite, Airflow may wait for itself. What its database refused was rolled back and is sent again; what may be
        repeated (`_REPEATABLE`) also when there was no answer, or none but "busy".
        """
        repeated = (TimeoutError, BusyError) if method in _REPEATABLE else (LockedError,)
        for _ in range(_TRIES - 1):
            try:
                return self._send(method, path, body)
            except repeated:
                continue
        return self._send(method, path, body)

    def _send(self, method: str, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as err:
            text = err.read().decode(errors="replace")[:1000]
            kind = BusyError if err.code == 503 else RuntimeError
            if err.code == 500 and '"Database error"' in text:  # SQLite, when two write at once
                kind = LockedError
            raise kind(f"{method} {path}: {err.code} {text}") from err

    def page(self, path: str) -> tuple[int, str]:
        """The status and the text of a page, for the user who is logged in, or for nobody."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        request = urllib.request.Request(self.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as err:
            return err.code, err.read().decode(errors="replace")

    def send_form(self, path: str, fields: Mapping[str, str], origin: str | None = None) -> tuple[int, str]:
        """Send a form as a browser does; the status of the answer, and the address that it leads to or its text."""
        headers = {"Authorization": f"Bearer {self._token}", "Origin": origin or self.url}
        body = urllib.parse.urlencode(fields).encode()
        request = urllib.request.Request(self.url + path, body, headers)
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=60) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as err:
            return err.code, err.headers.get("Location") or err.read().decode(errors="replace")

    def health(self) -> dict[str, str]:
        """State by component; nothing while the API does not answer."""
        try:
            found = self.call("GET", "/api/v2/monitor/health")
        except (OSError, RuntimeError):
            return {}
        return {part: str((state or {}).get("status")) for part, state in found.items()}

    def has_dag(self, dag_id: str) -> bool:
        """Whether the DAG processor has found it. Raises RuntimeError when its file does not import."""
        try:
            self.call("GET", f"/api/v2/dags/{dag_id}")
        except RuntimeError:
            errors = self.call("GET", "/api/v2/importErrors")["import_errors"]
            if errors:
                raise RuntimeError(
                    "\n".join(f"{e['filename']}: {e['stack_trace']}" for e in errors)
                ) from None
            return False
        return True

    def unpause(self, dag_id: str) -> None:
        self.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, Any]) -> str:
        """Start a run by hand, without a logical date; its run id.

        On SQLite, Airflow may not answer while its scheduler writes. The run has a name of its own, so that asking again
        cannot start a second one.
        """
        run_id = f"manual__{uuid.uuid4()}"
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf)}

        def started() -> bool:
            try:
                self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)
            except (TimeoutError, BusyError):
                return False
            except RuntimeError as err:
                if ": 500 " in str(err):
                    return False
                if ": 409 " not in str(err):  # 409: an earlier try has started it
                    raise
            return True

        self.wait(f"an Airflow free to start DAG {dag_id}", started, _TRIGGER_TRIES_S)
        return run_id

    def create_backfill(self, request: Mapping[str, Any]) -> int:
        """The id of a new backfill.

        On SQLite, Airflow answers 503 when its scheduler writes at the same moment, and takes back what it had
        begun so that the caller may try again (`_create_backfill` in its `models/backfill.py`): this does. Should
        it keep that backfill, so that the next try meets it (409), it is cancelled here.
        """
        busy = False

        def created() -> int | None:
            nonlocal busy
            try:
                return int(self._send("POST", "/api/v2/backfills", dict(request))["id"])
            except BusyError:
                busy = True
            except RuntimeError as err:
                if not busy or "already a running backfill" not in str(err):
                    raise
                with suppress(BusyError):  # the next try meets the backfill again
                    self._cancel_backfills(str(request["dag_id"]))
            return None

        return int(self.wait("an Airflow free to make a backfill", created, _BACKFILL_TRIES_S))

    def _cancel_backfills(self, dag_id: str) -> None:
        for one in self.call("GET", f"/api/v2/backfills?dag_id={dag_id}")["backfills"]:
            if one["completed_at"] is None:
                self.call("PUT", f"/api/v2/backfills/{one['id']}/cancel")

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        return list(self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?limit=100")["dag_runs"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.call("GET", _run(dag_id, run_id))["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Task instances, mapped ones by their index."""
        found = self.call("GET", f"{_run(dag_id, run_id)}/taskInstances?limit=1000")["task_instances"]
        return sorted(found, key=lambda task: (task["task_id"], task["map_index"]))

    def xcom(self, task: Task, key: str = "return_value") -> Any:
        """A value that a task instance pushed, or None."""
        path = f"{_run(task['dag_id'], task['dag_run_id'])}/taskInstances/{task['task_id']}/xcomEntries/{key}"
        try:
            value = self.call("GET", f"{path}?map_index={task['map_index']}")["value"]
        except RuntimeError:
            return None
        return json.loads(value) if isinstance(value, str) and value[:1] in "{[" else value

    def log(self, task: Task, try_number: int | None = None) -> list[dict[str, Any]]:
        """Records of a try's log, the last try's by default: `event`, `level`, perhaps `error_detail`."""
        path = f"{_run(task['dag_id'], task['dag_run_id'])}/taskInstances/{task['task_id']}/logs"
        number = try_number or task["try_number"]
        content = self.call("GET", f"{path}/{number}?map_index={task['map_index']}")["content"]
        return [record if isinstance(record, dict) else {"event": str(record)} for record in content]

    def error(self, task: Task) -> str:
        """What a failed task raised, in one text."""
        records = self.log(task)
        for record in records:
            for detail in record.get("error_detail") or ():  # the first is what was raised, then its causes
                return f"{detail['exc_type']}: {detail['exc_value']}"
        errors = [record["event"] for record in records if record.get("level") in ("error", "critical")]
        return "\n".join(errors) or "its log holds no error"

    def wait(self, what: str, test: Callable[[], Any], timeout_s: float, pause_s: float = 0.5) -> Any:
        """The first true answer of `test`. Raises TimeoutError naming `what`."""
        until = time.monotonic() + timeout_s
        while not (found := test()):
            if time.monotonic() > until:
                raise TimeoutError(f"{what}: not after {timeout_s:.0f} s")
            time.sleep(pause_s)
        return found


def _run(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id, safe='')}"
