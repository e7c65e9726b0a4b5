"""This module has the page that replays the history of a table with other options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse

from lakecore_airflow.hooks import LakeHook
from lakecore_airflow.ui.lake_data import MOST_FILES, Answer
from lakecore_airflow.ui.page import PageMaker

if TYPE_CHECKING:
    from lakecore.jobs.survey import TableRecord
    from lakecore.jobs.what_if import Report

__all__ = ["WhatIfPage", "WhatIfQuery"]

_MOST_SNAPSHOTS = 1000
"""A page does not replay the history of a table that has more."""
_LONGEST = 40
_STRATEGIES = ("", "universal", "full")
_EXPIRY = {
    "most": "snapshot.num-retained.max",
    "least": "snapshot.num-retained.min",
    "age": "snapshot.time-retained",
    "partitions": "partition.expiration-time",
}
_TRIGGER = {True: "num-sorted-run.compaction-trigger", False: "compaction.min.file-num"}
"""This is the option of tables with and without keys."""


@dataclass(frozen=True, slots=True)
class WhatIfQuery:
    """These are the fields of the form, as texts; an empty one changes nothing."""

    most: str = ""
    least: str = ""
    age: str = ""
    partitions: str = ""
    trigger: str = ""
    strategy: str = ""
    every: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> WhatIfQuery:
        """Read the fields of a request; a text that is too long is cut."""
        fields = {name: query.get(name, "").strip()[:_LONGEST] for name in cls.__slots__}
        if fields["strategy"] not in _STRATEGIES:
            fields["strategy"] = ""
        return cls(**fields)

    def options(self, *, keyed: bool) -> dict[str, str]:
        """Return the options of the table that the fields stand for."""
        options = {key: getattr(self, name) for name, key in _EXPIRY.items() if getattr(self, name)}
        return options | ({_TRIGGER[keyed]: self.trigger} if self.trigger else {})


class WhatIfPage:
    """It has the handler of the page. A form of the page is a request without any effect."""

    def __init__(self, maker: PageMaker) -> None:
        self._maker = maker
        self._data = maker.data

    def page(self, request: Request, session: SessionDep, name: str, conn: str = "") -> HTMLResponse:
        """Show what the options of the query would have cost and saved."""
        conn_id, connections = self._maker.connection(session, conn)
        state = self._data.survey(conn_id)
        records = state.survey.tables if state.survey is not None else ()
        record = next((one for one in records if one.table == name), None)
        if record is None:
            raise HTTPException(404, f"the newest survey of {conn_id} has no table of this name")
        query = WhatIfQuery.of(dict(request.query_params))
        answer: Answer[Report] = Answer(None, problem=_too_large(record))
        if not answer.problem:
            key = f"what-if {conn_id} {name} {query}"
            answer = self._data.ask(key, lambda: _replay(conn_id, record, query))
        return self._maker.html(
            "what_if.html",
            conn=conn_id,
            connections=connections,
            name=name,
            keyed=record.figures.has_key,
            query=query,
            report=answer.value,
            problem=answer.problem,
            prices=self._data.prices(conn_id),
        )


def _too_large(record: TableRecord) -> str:
    """Return why a page does not replay the table; the text is empty if it does."""
    figures = record.figures
    if figures.files <= MOST_FILES and figures.snapshots <= _MOST_SNAPSHOTS:
        return ""
    return (
        f"the table has {figures.files:,} files and {figures.snapshots:,} snapshots, which take too long for "
        f"a page; run lakecore what-if {record.table}"
    )


def _replay(conn_id: str, record: TableRecord, query: WhatIfQuery) -> Report:
    """Replay the history. Raises InvalidInputError, InvalidOptionError for a field with a wrong value."""
    from lakecore.jobs import what_if
    from lakecore.jobs.definitions.values import fields_of

    values: dict[str, Any] = {"strategy": query.strategy, "every": query.every}
    job = what_if.Job(
        table=record.table,
        options=query.options(keyed=record.figures.has_key),
        **fields_of(what_if.Job, values, record.surveyed_ms),
    )
    return what_if.run(job, LakeHook(conn_id).catalog())
