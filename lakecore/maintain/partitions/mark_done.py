"""This module marks partitions as complete: by a file in each, or by a request to a web service.

Rules of the format: the actions of option `partition.mark-done-action` in their order, partition by
partition. `success-file` writes `_SUCCESS`; `http-report` posts {params, table, path, partition} as JSON to
`partition.mark-done-action.http.url` and wants {"result": "SUCCESS"}. `done-partition` and `mark-event` tell
a metastore: by the format a catalog without one refuses them before anything is marked. So does `custom`
here, which runs a Java class.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from lakecore.errors import InvalidOptionError, NotFoundError, UnavailableError, UnsupportedError
from lakecore.maintain.target import Target
from lakecore.metadata.json_record import json_object
from lakecore.metadata.options import TableOptions
from lakecore.options import Option
from lakecore.row.partition_path import partition_path

__all__ = ["MARK_DONE_ACTION", "check_actions", "mark_done"]

_SUCCESS_FILE, _HTTP = "success-file", "http-report"
MARK_DONE_ACTION = Option(
    "partition.mark-done-action", str, _SUCCESS_FILE, "What marks a partition as done; several by commas."
)
_URL = Option(f"{MARK_DONE_ACTION.key}.http.url", str, "", "The address of the action http-report.")
_PARAMS: Option[str | None] = Option(
    f"{MARK_DONE_ACTION.key}.http.params", str, None, "A text that the action http-report sends."
)
_REFUSED = {
    "done-partition": "it adds a partition to a metastore, which this catalog does not have",
    "mark-event": "it sends an event to a metastore, which this catalog does not have",
    "custom": "it runs a Java class",
}
_TIMEOUT_SECONDS = 60
_MOST_BYTES = 1 << 20

Mark = Callable[[Target, str], None]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, and notify nobody."""

    def redirect_request(self, *_: Any) -> None:
        return None


def check_actions(target: Target) -> tuple[Mark, ...]:
    """Return the functions that mark a partition (given by its path below the table). Raises
    UnsupportedError, InvalidOptionError.
    """
    options = target.schema.options
    names = [name.strip() for name in MARK_DONE_ACTION.read(options).split(",") if name.strip()]
    marks: list[Mark] = []
    for name in names:
        if name == _SUCCESS_FILE:
            marks.append(_write_file)
        elif name == _HTTP:
            _url(target)
            marks.append(_report)
        else:
            why = _REFUSED.get(name, "the action is unknown")
            raise UnsupportedError(
                f"table {target.name}: option {MARK_DONE_ACTION.key}={','.join(names)}: action {name} is "
                f"refused, because {why}; use another engine for it, or only {_SUCCESS_FILE} and "
                f"{_HTTP}"
            )
    return tuple(marks)


def mark_done(target: Target, partitions: Sequence[Mapping[str, Any]]) -> None:
    """Mark them; again is harmless. Raises as `check_actions`, and UnavailableError when a report failed."""
    marks = check_actions(target)
    options = TableOptions.from_schema(target.schema)
    partition_type = target.schema.partition_type
    for values in partitions:
        row = [values[name] for name in partition_type.names]
        below = partition_path(
            row, partition_type, options.partition_default_name, options.partition_legacy_name
        )
        for mark in marks:
            mark(target, below)


def _write_file(target: Target, partition: str) -> None:
    path = f"{target.paths.table_path}/{partition}/_SUCCESS"
    now = target.clock.now_ms()
    try:
        created = int(json_object(target.file_io.read(path))["creationTime"])
    except (NotFoundError, ValueError, KeyError, TypeError):
        created = now
    mark = {"creationTime": created, "modificationTime": now}
    target.file_io.overwrite(path, json.dumps(mark).encode())


def _url(target: Target) -> str:
    url = _URL.read(target.schema.options).strip()
    if urlsplit(url).scheme not in ("http", "https"):
        raise InvalidOptionError(
            f"table {target.name}: option {_URL.key}={url!r}: {_HTTP} needs an http(s) address"
        )
    return url


def _report(target: Target, partition: str) -> None:
    """Send a partition to the web service. The address may have secrets: messages name its host only."""
    url = _url(target)
    body = {
        "params": _PARAMS.read(target.schema.options),
        "table": target.name.partition("$")[0],
        "path": target.paths.table_path,
        "partition": f"{partition}/",
    }
    problem = _problem(url, json.dumps(body).encode())
    if problem:
        host = urlsplit(url).hostname
        raise UnavailableError(
            f"table {target.name}: partition {partition} could not be reported to {host}, "
            f"because {problem}; run again"
        )


def _problem(url: str, body: bytes) -> str:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            answer = json.loads(response.read(_MOST_BYTES))
    except urllib.error.HTTPError as err:
        return f"the server answered with status {err.code}"
    except OSError as err:
        return f"the server did not answer ({type(err).__name__})"
    except ValueError:
        return "the answer of the server is not JSON"
    result = answer.get("result") if isinstance(answer, dict) else None
    return (
        "" if str(result).upper() == "SUCCESS" else f"the result in its answer is {result!r}, not 'SUCCESS'"
    )
