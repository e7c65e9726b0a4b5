"""This module has what all pages share: the lake of a request, the templates, and the words of numbers."""

from __future__ import annotations

from importlib import resources
from typing import Any
from urllib.parse import quote

from fastapi import HTTPException
from fastapi.responses import HTMLResponse
from jinja2 import DictLoader, Environment, StrictUndefined, select_autoescape

from lakecore_airflow.hooks import LakeHook
from lakecore_airflow.reports.outcome import outcome_of
from lakecore_airflow.ui import charts, words
from lakecore_airflow.ui.airflow_data import lake_connections
from lakecore_airflow.ui.lake_data import LakeData

__all__ = ["PageMaker"]

_TABS = (("./", "Lake"), ("history", "History"), ("window", "Window"), ("quarantine", "Quarantine"))


class PageMaker:
    """It finds the lake of a request and renders templates. `data` is what was read of lakes."""

    def __init__(self, data: LakeData) -> None:
        self.data = data
        self._templates = _environment()

    def connection(self, session: Any, requested: str) -> tuple[str, list[str]]:
        """Return the connection of a page, and those to choose from. Another connection than one of a lake
        does not exist for a page: raises HTTPException.
        """
        connections = lake_connections(session)
        conn_id = requested or LakeHook.default_conn_name
        if not requested and connections and conn_id not in connections and not _is_lake(conn_id):
            conn_id = connections[0]
        if conn_id not in connections:
            if not _is_lake(conn_id):
                raise HTTPException(404, "there is no connection of type lakecore with this id")
            connections = sorted({conn_id, *connections})
        return conn_id, connections

    def html(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a template. Every page knows the present time and the tabs."""
        plain = {
            "now_ms": self.data.now_ms(),
            "tabs": _TABS,
            "connections": (),
            "conn": "",
            "here": "",
            "up": "",
        }
        text = self._templates.get_template(template).render(**plain | values)
        return HTMLResponse(text, status_code=status)


def _is_lake(conn_id: str) -> bool:
    try:
        return str(LakeHook.get_connection(conn_id).conn_type) == LakeHook.conn_type
    except Exception:  # noqa: BLE001 - what cannot be found, whatever the backend says, is none
        return False


def _environment() -> Environment:
    folder = resources.files("lakecore_airflow.ui") / "templates"
    texts = {
        one.name: one.read_text(encoding="utf-8") for one in folder.iterdir() if one.name.endswith(".html")
    }
    environment = Environment(
        loader=DictLoader(texts),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {name: getattr(charts, name) for name in charts.__all__}
    environment.globals["outcome_of"] = outcome_of
    environment.filters |= {
        "size": words.size_text,
        "time": words.time_text,
        "age": words.age_text,
        "span": words.span_text,
        "state": words.state_text,
        "money": words.money_text,
        "number": words.number_text,
        "part": _part_of_address,
    }
    return environment


def _part_of_address(value: object) -> str:
    """Quote a text for a query or a part of a path; a slash too, which Jinja's filter leaves."""
    return quote(str(value), safe="")
