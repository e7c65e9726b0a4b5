"""A sensor for new data in a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from operators.hooks import LakeHook, airflow_errors
from operators.triggers import NewSnapshotTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakecore.catalog.filesystem import FilesystemCatalog
    from lakecore.jobs.new_snapshots import SnapshotRange

__all__ = ["NewSnapshotSensor"]


class NewSnapshotSensor(BaseSensorOperator):
    """Waits until a table holds new data and returns the range of snapshot ids, `{"first", "last", "count"}`.

    Compactions (and statistics) bring no new data and are passed over. In a backfill, the snapshots
    committed inside the run's data interval satisfy the sensor at once; without any, the task is skipped:
    nothing new can arrive in the past.

    :param table: `database.table`. (templated)
    :param after_snapshot: wait for snapshots above this id; None means the last one that this task of this
        DAG consumed (all snapshots on its first run; a repeated run starts where its first try did).
        (templated)
    :param deferrable: wait in the triggerer; the sensor looks once before it defers.
    """

    template_fields: Sequence[str] = ("table", "after_snapshot", "lake_conn_id")

    def __init__(
        self,
        *,
        table: str,
        after_snapshot: int | str | None = None,
        lake_conn_id: str = LakeHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.after_snapshot = after_snapshot
        self.lake_conn_id = lake_conn_id
        self.deferrable = deferrable

    def poke(self, context: Context) -> PokeReturnValue:
        with airflow_errors():
            catalog = LakeHook(self.lake_conn_id).catalog()
            found = self._look(context, catalog)
            if found is None:
                return PokeReturnValue(is_done=False)
            return PokeReturnValue(is_done=True, xcom_value=self._consumed(context, catalog, found.to_json()))

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        first = self._first_look(context)
        if first.is_done:
            return first.xcom_value
        with airflow_errors():
            start = self._start(context, LakeHook(self.lake_conn_id).catalog())
        return self.defer(
            trigger=NewSnapshotTrigger(
                table=self.table,
                after_snapshot=start,
                lake_conn_id=self.lake_conn_id,
                poke_interval=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def _first_look(self, context: Context) -> PokeReturnValue:
        """One look, under the rules by which Airflow's own loop treats what a look raises."""
        try:
            return self.poke(context)
        except AirflowSkipException:
            raise
        except AirflowFailException as err:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(f"skipped, as soft_fail or never_fail wants it: {err}") from err
            raise
        except Exception as err:
            if self.silent_fail:
                self.log.exception("the first look at %s failed; looking again later", self.table)
                return PokeReturnValue(is_done=False)
            if self.never_fail:
                raise AirflowSkipException(f"skipped, as never_fail wants it: {err}") from err
            raise

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, int]:
        if event.get("status") != "found":
            error = AirflowFailException if event.get("permanent") else AirflowException
            raise error(f"waiting for {self.table} failed: {event.get('error', event)}")
        with airflow_errors():
            return self._consumed(context, LakeHook(self.lake_conn_id).catalog(), event["range"])

    def _look(self, context: Context, catalog: FilesystemCatalog) -> SnapshotRange | None:
        from lakecore.jobs import new_snapshots

        snapshots = catalog.load_table(self.table).snapshots
        interval = _backfill_interval(context)
        if interval is not None:
            found = new_snapshots.within(snapshots.load, snapshots.list_ids(), *interval)
            self.log.info("new data of %s in the data interval: %s", self.table, found)
            if found is None:
                raise AirflowSkipException(
                    f"no new data of {self.table} in the data interval of this backfill"
                )
            return found
        start = self._start(context, catalog)
        found = new_snapshots.after(snapshots.load, snapshots.list_ids(), start)
        self.log.info("new data of %s above snapshot %d: %s", self.table, start, found)
        return found

    def _consumer(self) -> str:
        return f"{self.dag_id}.{self.task_id}"

    def _start(self, context: Context, catalog: FilesystemCatalog) -> int:
        from lakecore.errors import InvalidInputError
        from lakecore.jobs.new_snapshots import PositionStore

        given = self.after_snapshot
        if given is None or str(given).strip() in ("", "None"):
            store = PositionStore(catalog.file_io, catalog.warehouse)
            return store.start(self._consumer(), self.table, context["ti"].run_id)
        try:
            return int(given)
        except ValueError as err:
            raise InvalidInputError(f"after_snapshot={given!r}: use a snapshot id") from err

    def _consumed(
        self, context: Context, catalog: FilesystemCatalog, found: dict[str, int]
    ) -> dict[str, int]:
        """A backfill looks back: it does not move the position of the DAG's own runs."""
        from lakecore.jobs.new_snapshots import Position, PositionStore

        if _backfill_interval(context) is None:
            store = PositionStore(catalog.file_io, catalog.warehouse)
            start = self._start(context, catalog)
            position = Position(run=context["ti"].run_id, after=start, last=found["last"])
            store.save(self._consumer(), self.table, position)
        return found


def _backfill_interval(context: Context) -> tuple[int, int] | None:
    """The data interval of a backfill run in milliseconds; None in any other run.

    A schedule without width gives an interval of length zero: it is taken as the day before its end.
    """
    run = context.get("dag_run")
    if run is None or str(getattr(run.run_type, "value", run.run_type)) != "backfill":
        return None
    start, end = run.data_interval_start, run.data_interval_end
    if start is None or end is None:
        return None
    if start == end:
        start = end - timedelta(days=1)
    return int(start.timestamp() * 1000), int(end.timestamp() * 1000)
