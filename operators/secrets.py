"""Secrets in the fields of tasks: Airflow learns their values and shows `***` for them everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.log import mask_secret

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

__all__ = ["LakeTask", "conceal"]


class LakeTask(BaseOperator):
    """An operator whose rendered fields may contain options with secrets, such as `s3.access-key`."""

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Render the fields as Airflow does, then mask the secrets among the rendered values."""
        super().render_template_fields(context, jinja_env)
        conceal([getattr(self, name, None) for name in self.template_fields])


def conceal(raw: Any) -> None:
    """Mask the secrets of a value in logs, rendered fields and the supervisor's log of this task.

    Values behind keys such as `s3.access-key` or `token` are secret, and so are passwords in addresses;
    Airflow's own rule knows fewer keys. Texts with fewer than five characters stay as they are: Airflow masks
    none that short.
    """
    from lakecore.errors import secrets_of

    for secret in secrets_of(raw):
        mask_secret(secret)
