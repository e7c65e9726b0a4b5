"""This module has operators on the positions of streaming consumers: reset, clear, expire."""

from __future__ import annotations

from lakecore.jobs.definitions.versions import ClearConsumers, ExpireConsumers, ResetConsumer
from lakecore_airflow.tasks.chore import ChoreOperator

__all__ = ["ClearConsumersOperator", "ExpireConsumersOperator", "ResetConsumerOperator"]


class ResetConsumerOperator(ChoreOperator):
    """Set the position of a consumer to `next_snapshot`; None deletes the consumer."""

    definition = ResetConsumer


class ClearConsumersOperator(ChoreOperator):
    """Delete the consumers whose names match regular expressions."""

    definition = ClearConsumers


class ExpireConsumersOperator(ChoreOperator):
    """Delete the consumers that have not moved for a given time; None takes the table's option.

    :param expiration: for example `30 d`.
    """

    definition = ExpireConsumers
