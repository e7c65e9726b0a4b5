"""This plugin adds the pages of lakecore to Airflow, and its timetable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from lakecore_airflow.timetables import OpenDaysTimetable

__all__ = ["LakecoreUiPlugin"]

PREFIX = "/lakecore"

Message = MutableMapping[str, Any]


class _LazyApp:
    """An ASGI app that is made by its first request: only the API server serves pages, and all components
    load plugins.
    """

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if self._app is None:
            from lakecore_airflow.ui.app import new_app

            self._app = new_app()
        await self._app(scope, receive, send)


class LakecoreUiPlugin(AirflowPlugin):
    """It adds the pages of a lake to the menu, the reports of runs and tasks as tabs, and the timetable of
    DAGs with black-outs.
    """

    name = "lakecore_ui"
    fastapi_apps: ClassVar[list[Any]] = [{"app": _LazyApp(), "url_prefix": PREFIX, "name": "lakecore"}]
    timetables: ClassVar[list[Any]] = [OpenDaysTimetable]
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Lake",
            "href": "lakecore/",
            "destination": "nav",
            "category": "browse",
            "url_route": "lake",
        },
        {
            "name": "Lake report",
            "href": "lakecore/runs/{DAG_ID}/{RUN_ID}",
            "destination": "dag_run",
            "url_route": "lake_run",
        },
        {
            "name": "Lake report",
            "href": "lakecore/runs/{DAG_ID}/{RUN_ID}/{TASK_ID}?map_index={MAP_INDEX}",
            "destination": "task_instance",
            "url_route": "lake_task",
        },
    ]
