"""This module has the buttons of the pages: each starts a run of a DAG, and nothing runs in the API server.

A form is accepted from a page of this Airflow only, with the token of its user (`tokens.py`). What deletes or
rewrites is a dry run first: its page shows the forecast, and has the button that does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from lakecore_airflow.rights import ActionRequest
from lakecore_airflow.ui import airflow_actions
from lakecore_airflow.ui.airflow_data import reports_of_run
from lakecore_airflow.ui.page import PageMaker
from lakecore_airflow.ui.run_view import run_view
from lakecore_airflow.ui.tokens import form_token, from_this_site, is_valid

__all__ = ["ACTIONS", "Actions", "read_form"]

ACTIONS: Mapping[str, tuple[str, ...]] = {
    "compact": ("table", "strategy"),
    "maintain": ("table",),
    "hold": ("table", "reason"),
    "release": ("table",),
    "undo": ("run", "table"),
    "purge": ("run",),
    "fsck": ("table",),
}
"""These are the actions, and the fields of their forms."""
_DRY_FIRST = frozenset({"compact", "maintain", "undo", "purge"})
_OF_THE_QUARANTINE = ("undo", "purge")
"""The page of a table has no buttons for these."""
_MOST_BODY = 16 << 10
_MOST_FIELD = 500
_ENDED = frozenset({"success", "failed"})


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises HTTPException for one that is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BODY:
            raise HTTPException(413, "the form is too long")
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise HTTPException(400, "the form has too many fields") from None
    return {name: value[:_MOST_FIELD] for name, value in pairs}


class Actions:
    """It has the handlers of actions."""

    def __init__(self, pages: PageMaker) -> None:
        self._pages = pages

    def for_user(self, session: Any, user: Any, conn_id: str, table: str = "") -> dict[str, Any]:
        """Return what the templates need for buttons: `may` are the actions that the user may start,
        `missing` says which buttons are missing and why, and `token` is empty for a user without any.
        """
        if not airflow_actions.may_start(user):
            dag_id = airflow_actions.ACTION_DAG
            return {
                "token": "",
                "may": (),
                "missing": f"There are no buttons: you may not start runs of {dag_id}.",
            }
        rights, name = airflow_actions.action_rights(session), str(user.get_name())
        may = [
            action
            for action in ACTIONS
            if not rights.refusal(ActionRequest(user=name, action=action, connection=conn_id, table=table))
        ]
        secret, now_ms = airflow_actions.secret_key(), self._pages.data.now_ms()
        elsewhere = _OF_THE_QUARANTINE if table else ()
        others = ", ".join(action for action in ACTIONS if action not in (*may, *elsewhere))
        hidden = f"Rules of rights ([[airflow.rights]]) hide buttons from you: {others}." if others else ""
        token = form_token(secret, str(user.get_id()), now_ms) if may else ""
        return {"token": token, "may": may, "missing": hidden}

    def start(self, request: Request, form: Mapping[str, str], session: Any, user: Any) -> RedirectResponse:
        """Start the run that a form asks for, and lead to its page. Raises HTTPException."""
        self._check(request, form, user)
        conn_id, _ = self._pages.connection(session, form.get("conn", ""))
        conf = _conf(form, conn_id)
        request_ = ActionRequest(
            user=str(user.get_name()), action=conf["action"], connection=conn_id, table=conf.get("table", "")
        )
        if refusal := airflow_actions.action_rights(session).refusal(request_):
            raise HTTPException(403, refusal)
        run_id = airflow_actions.start(session, user, conf)
        if run_id is None:
            raise HTTPException(
                409, f"the DAG {airflow_actions.ACTION_DAG} does not exist: copy dags/lakecore_adhoc.py"
            )
        return RedirectResponse(f"actions/{quote(run_id, safe='')}?conn={quote(conn_id, safe='')}", 303)

    def _check(self, request: Request, form: Mapping[str, str], user: Any) -> None:
        """Refuse what another site sent. Raises HTTPException."""
        from airflow.configuration import conf

        base_url = str(conf.get("api", "base_url", fallback="") or "")
        secret, now_ms = airflow_actions.secret_key(), self._pages.data.now_ms()
        if not from_this_site(request.headers, base_url):
            raise HTTPException(403, "the form does not come from a page of this Airflow")
        if not is_valid(form.get("token", ""), secret, str(user.get_id()), now_ms):
            raise HTTPException(403, "the form is too old, or of another user: load its page again")

    def page(self, session: Any, user: Any, run_id: str, conn: str) -> HTMLResponse:
        """Show what became of an action, and after a dry run the button that does it."""
        conn_id, connections = self._pages.connection(session, conn)
        action = airflow_actions.run_conf(session, run_id)
        if action is None:
            raise HTTPException(404, "there is no such action")
        state, request = action
        tasks = reports_of_run(session, airflow_actions.ACTION_DAG, run_id)
        lines = [line for line in run_view(tasks) if line["task_id"] not in ("choose", "plan")]
        lines = [line for line in lines if line["state"] != "skipped" or line["report"]]
        return self._pages.html(
            "action.html",
            conn=conn_id,
            connections=connections,
            up="../",
            run_id=run_id,
            dag_id=airflow_actions.ACTION_DAG,
            state=state,
            ended=state in _ENDED,
            paused=airflow_actions.is_paused(session),
            request=request,
            lines=lines,
            confirm=state == "success" and bool(request.get("dry_run")),
            **self.for_user(
                session, user, str(request.get("lake_conn_id", conn_id)), str(request.get("table", ""))
            ),
        )


def _conf(form: Mapping[str, str], conn_id: str) -> dict[str, Any]:
    """Return the configuration of the run. Raises HTTPException for what is no action, or lacks a field."""
    action = form.get("action", "")
    if action not in ACTIONS:
        raise HTTPException(400, "there is no such action")
    values = {name: form[name].strip() for name in ACTIONS[action] if form.get(name, "").strip()}
    needed = {"undo": "run"}.get(action, "table" if action != "purge" else "")
    if needed and needed not in values:
        raise HTTPException(400, f"the form lacks {needed}")
    if action == "hold" and "reason" not in values:
        raise HTTPException(400, "say why the table is to be on hold")
    if values.get("strategy", "universal") not in ("universal", "full"):
        raise HTTPException(400, "there is no such strategy")
    dry_run = action in _DRY_FIRST and form.get("confirm") != "yes"
    return {"action": action, "dry_run": dry_run, "lake_conn_id": conn_id, **values}
