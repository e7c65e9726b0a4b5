"""This module has the notifier that says in words what became of a task of lakecore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from airflow.sdk import BaseNotifier

from lakecore_airflow.links import report_address

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["LakeNotifier"]

_LONGEST = 2_000


class LakeNotifier(BaseNotifier):
    """Send what became of a task through another notifier, whose templates have the text as `lake_text`.

    For example `on_failure_callback=LakeNotifier(SmtpNotifier(to="lake@example.org", subject="Lake",
    html_content="{{ lake_text | e }}"))`. The text has the DAG, the task, the table, the outcome or the
    error, and the address of the report. It is a value for templates and is not rendered itself, so an error
    message with braces stays text.

    :param through: a notifier of a provider (mail, Slack, …).
    """

    def __init__(self, through: BaseNotifier) -> None:
        super().__init__()
        self.through = through

    def notify(self, context: Context) -> None:
        cast("dict[str, Any]", context)["lake_text"] = _text(context)
        self.through(context)


def _text(context: Context) -> str:
    from lakecore.errors import mask_secrets, printable

    ti = context["ti"]
    values = cast("dict[str, Any]", context)
    error = values.get("exception")
    table = getattr(values.get("task"), "table", None) or ti.task_id
    result = f"failed: {error}" if error else values.get("outcome") or "ended"
    sentence = f"{ti.dag_id}, {ti.task_id}: {table}: {result}"
    return f"{printable(mask_secrets(sentence), _LONGEST)}\n{report_address(ti)}"
