"""This module has operators that put tables on hold, release them and list them. Nothing is removed from a
table on hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from lakecore.jobs.definitions.repair import HoldTable, ReleaseTable
from lakecore_airflow.hooks import LakeHook, airflow_errors
from lakecore_airflow.tasks.chore import ChoreOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["HoldTableOperator", "ListHoldsOperator", "ReleaseTableOperator"]


class HoldTableOperator(ChoreOperator):
    """Put a table on hold: nothing is removed from it until a person or `ReleaseTableOperator` releases it.
    Rollback, repair and undo stay possible.

    :param reason: the reason, for everyone whose chore the hold stops.
    """

    definition = HoldTable


class ReleaseTableOperator(ChoreOperator):
    """End all holds of a table, whatever their cause, without a check. The ledger records who released it."""

    definition = ReleaseTable


class ListHoldsOperator(BaseOperator):
    """List the tables that are on hold: why, since when, by which run, and what ends the hold.

    :param pattern: names of tables as a glob, `shop.*`. (templated)
    """

    template_fields: Sequence[str] = ("pattern", "lake_conn_id")

    def __init__(
        self, *, pattern: str = "*", lake_conn_id: str = LakeHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.pattern = pattern
        self.lake_conn_id = lake_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        from lakecore.jobs import holds

        with airflow_errors():
            result = holds.holds_of(LakeHook(self.lake_conn_id).catalog(), self.pattern or "*")
        for hold in result:
            self.log.warning("%s is on hold: %s", hold.table, hold)
        return [hold.to_json() for hold in result]
