"""Secrets in what a task is given: Airflow is told of their values, and shows `***` for them everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.log import mask_secret

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

__all__ = ["LakeTask", "conceal"]


class LakeTask(BaseOperator):
    """An operator whose rendered fields may hold options with secrets, such as `s3.access-key`."""

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """As in Airflow; then the secrets among the rendered values are concealed."""
        super().render_template_fields(context, jinja_env)
        conceal([getattr(self, name, None) for name in self.template_fields])


def conceal(raw: Any) -> None:
    """Masks the secrets of a value in logs, rendered fields and the log of the supervisor of this task.

    Secret are values behind keys such as `s3.access-key` or `token`, and passwords in addresses; Airflow's
    own rule knows fewer keys. Texts of fewer than five characters are left
    as they are: Airflow masks none so short.
    """
    from lakecore.errors import secrets_of

    for secret in secrets_of(raw):
        mask_secret(secret)
