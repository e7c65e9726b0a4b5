"""This module marks partitions as complete: by a file in each, in the catalog, or at a web service.

Rules of the format: the actions of option `partition.mark-done-action` in their order, partition by
partition. `success-file` writes `_SUCCESS`; `http-report` posts {params, table, path, partition} as JSON to
`partition.mark-done-action.http.url` and wants {"result": "SUCCESS"}. `done-partition` lists the partition a
second time in the catalog, with `.done` behind its last text; `mark-event` sends an event to the metastore,
or the request for marks to a REST server. Both want `metastore.partitioned-table=true`, and a catalog without
a list of partitions refuses them before anything is marked. `custom`, which runs a Java class, is refused.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from lakecore.errors import InvalidOptionError, NotFoundError, UnavailableError, UnsupportedError
from lakecore.maintain.partitions.in_step import DONE
from lakecore.maintain.target import Target
from lakecore.metadata.json_record import json_object
from lakecore.metadata.listed_partitions import PARTITIONED, has_listed_partitions, spec_texts
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option
from lakecore.row.partition_path import spec_path

__all__ = ["MARK_DONE_ACTION", "check_actions", "mark_done", "marks_events"]

_SUCCESS_FILE, _HTTP = "success-file", "http-report"
_DONE_PARTITION, _MARK_EVENT, _CUSTOM = "done-partition", "mark-event", "custom"
MARK_DONE_ACTION = Option(
    "partition.mark-done-action", str, _SUCCESS_FILE, "What marks a partition as done; several by commas."
)
_URL = Option(f"{MARK_DONE_ACTION.key}.http.url", str, "", "The address of the action http-report.")
_PARAMS: Option[str | None] = Option(
    f"{MARK_DONE_ACTION.key}.http.params", str, None, "A text that the action http-report sends."
)
_TIMEOUT_SECONDS = 60
_MOST_BYTES = 1 << 20

Mark = Callable[[Target, Mapping[str, str]], None]
"""It marks a partition, which is given by the texts of its columns."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, and notify nobody."""

    def redirect_request(self, *_: Any) -> None:
        return None


def check_actions(target: Target) -> tuple[Mark, ...]:
    """Return the functions that mark a partition. Raises UnsupportedError, InvalidOptionError."""
    names = _actions(target.schema)
    marks: list[Mark] = []
    for name in names:
        if name == _SUCCESS_FILE:
            marks.append(_write_file)
        elif name == _HTTP:
            _url(target)
            marks.append(_report)
        else:
            if why := _refusal(target, name):
                raise UnsupportedError(
                    f"table {target.name}: option {MARK_DONE_ACTION.key}={','.join(names)}: action {name} is "
                    f"refused, because {why}; use another engine for it, or only {_SUCCESS_FILE} and "
                    f"{_HTTP}"
                )
            marks.append(_list_done if name == _DONE_PARTITION else _send_event)
    return tuple(marks)


def marks_events(schema: TableSchema) -> bool:
    """Return whether complete partitions are marked in the catalog."""
    return _MARK_EVENT in _actions(schema)


def _actions(schema: TableSchema) -> list[str]:
    return [name.strip() for name in MARK_DONE_ACTION.read(schema.options).split(",") if name.strip()]


def _refusal(target: Target, action: str) -> str:
    """Return why an action of catalogs cannot be done; it is empty when it can."""
    if action not in (_DONE_PARTITION, _MARK_EVENT):
        return "it runs a Java class" if action == _CUSTOM else "the action is unknown"
    if target.stores.done_marks is None:
        return "this catalog keeps no list of the partitions of the table"
    if not has_listed_partitions(target.schema):
        return f"it needs {PARTITIONED.key}=true"
    return ""


def mark_done(target: Target, partitions: Sequence[Mapping[str, Any]]) -> None:
    """Mark them; again is harmless. Raises as `check_actions`, and UnavailableError when a report failed."""
    marks = check_actions(target)
    for texts in spec_texts(partitions, target.schema):
        for mark in marks:
            mark(target, texts)


def _list_done(target: Target, partition: Mapping[str, str]) -> None:
    """Add the second entry of a partition to the list."""
    *first, last = partition.values()
    if target.stores.done_marks is not None:
        target.stores.done_marks.add([(*first, f"{last}{DONE}")])


def _send_event(target: Target, partition: Mapping[str, str]) -> None:
    if target.stores.done_marks is not None:
        target.stores.done_marks.mark_done([tuple(partition.values())])


def _write_file(target: Target, partition: Mapping[str, str]) -> None:
    path = f"{target.paths.table_path}/{spec_path(partition)}/_SUCCESS"
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


def _report(target: Target, texts: Mapping[str, str]) -> None:
    """Send a partition to the web service. The address may have secrets: messages name its host only."""
    url, partition = _url(target), spec_path(texts)
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
