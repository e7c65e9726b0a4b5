"""Secrets in the fields of tasks: Airflow learns their values and shows `***` for them everywhere. The base
of tasks that have such fields also tells the ledger which task begins a job.
"""

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

    def pre_execute(self, context: Context) -> None:
        """Tell the ledger which task begins the jobs of this process, and keep pandas out of it (0.4 s of
        a core).
        """
        from lakecore.jobs.runner.origin import set_origin
        from lakecore.types.pandas_probe import skip_pandas

        skip_pandas()
        ti = context["ti"]
        set_origin(
            {
                "dag": ti.dag_id,
                "run": ti.run_id,
                "task": ti.task_id,
                "map_index": ti.map_index,
                "try": ti.try_number,
            }
        )
        super().pre_execute(context)

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Render the fields as Airflow does, then mask the secrets among the rendered values; a table may be
        named `CONNECTION.DB.TABLE`.
        """
        from lakecore_airflow.named_connection import use_named_connection

        super().render_template_fields(context, jinja_env)
        use_named_connection(self)
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
