"""This module has the base of the table sensors: check once on the worker, then wait in the triggerer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from lakecore_airflow.airflow_names import AirflowException, AirflowFailException, AirflowSkipException, conf
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.links import ReportLink, TableLink
from lakecore_airflow.named_connection import use_named_connection
from lakecore_airflow.triggers import WaitTrigger

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import BaseOperatorLink, Context

    from lakecore.catalog.catalog import Catalog

__all__ = ["TableSensor", "logical_day"]


class TableSensor(BaseSensorOperator):
    """Wait for something in a table and return what was found, a small JSON object, as XCom.

    The sensor checks once before it defers. The triggerer retries storage that does not answer; an error that
    no retry can repair fails the task at once.

    :param table: `database.table`. (templated)
    :param deferrable: wait in the triggerer, not on a worker.
    """

    wait: ClassVar[str]
    """This is the name of the wait in `lakecore.jobs.watching.waits`."""
    template_fields: Sequence[str] = ("table", "lake_conn_id")
    operator_extra_links: Sequence[BaseOperatorLink] = (ReportLink(), TableLink())

    def __init__(
        self,
        *,
        table: str,
        lake_conn_id: str = LakeHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.lake_conn_id = lake_conn_id
        self.deferrable = deferrable

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Render the fields as Airflow does; the table may be named `CONNECTION.DB.TABLE`."""
        super().render_template_fields(context, jinja_env)
        use_named_connection(self)

    @abstractmethod
    def request(self, context: Context, catalog: Catalog) -> dict[str, Any]:
        """Return what the sensor waits for, from the rendered fields. Raises InvalidInputError."""

    def look(self, context: Context, catalog: Catalog) -> dict[str, Any] | None:
        """Check once; None means that the wait is not over."""
        from lakecore.jobs.watching import waits

        return waits.look(self.wait, catalog, self.table, self.request(context, catalog))

    def accept(self, context: Context, catalog: Catalog, result: dict[str, Any]) -> dict[str, Any]:
        """Return the XCom for the result of a look; state that the sensor remembers is written here."""
        return {"table": self.table, **result}

    def poke(self, context: Context) -> PokeReturnValue:
        with airflow_errors():
            catalog = LakeHook(self.lake_conn_id).catalog()
            result = self.look(context, catalog)
            if result is None:
                return PokeReturnValue(is_done=False)
            self.log.info("found in %s: %s", self.table, result)
            return PokeReturnValue(is_done=True, xcom_value=self.accept(context, catalog, result))

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        first = self._first_look(context)
        if first.is_done:
            return first.xcom_value
        with airflow_errors():
            request = self.request(context, LakeHook(self.lake_conn_id).catalog())
        self.log.info(
            "nothing in %s yet: the triggerer checks again every %.0f s for %s",
            self.table,
            self.poke_interval,
            request,
        )
        return self.defer(
            trigger=WaitTrigger(
                wait=self.wait,
                table=self.table,
                request=request,
                lake_conn_id=self.lake_conn_id,
                poke_interval=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def _first_look(self, context: Context) -> PokeReturnValue:
        """Check once, and treat errors of the check as Airflow's own sensor loop does."""
        try:
            return self.poke(context)
        except AirflowSkipException:
            raise
        except AirflowFailException as err:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(f"skipped, because soft_fail or never_fail is set: {err}") from err
            raise
        except Exception as err:  # as Airflow's own loop: silent_fail and never_fail are about any error
            if self.silent_fail:
                self.log.exception("the first look at %s failed; it is looked at again later", self.table)
                return PokeReturnValue(is_done=False)
            if self.never_fail:
                raise AirflowSkipException(f"skipped, because never_fail is set: {err}") from err
            raise

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        if event.get("status") != "found":
            error = AirflowFailException if event.get("permanent") else AirflowException
            raise error(f"waiting for {self.table} failed: {event.get('error', event)}")
        self.log.info("found in %s: %s", self.table, event["found"])
        with airflow_errors():
            return self.accept(context, LakeHook(self.lake_conn_id).catalog(), event["found"])


def logical_day(context: Context) -> datetime:
    """Return the logical date of a run. A run without one, such as a run that an asset started, gets the last
    complete day at the time it was due: the date that a daily schedule would have given it.
    """
    run = context["dag_run"]
    date: datetime = run.logical_date or run.run_after - timedelta(days=1)
    return date
