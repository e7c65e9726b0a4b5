"""Positions of streaming consumers as Airflow tasks: reset, clear, expire."""

from __future__ import annotations

from typing import ClassVar

from operators.chore import ChoreOperator

__all__ = ["ClearConsumersOperator", "ExpireConsumersOperator", "ResetConsumerOperator"]


class ResetConsumerOperator(ChoreOperator):
    """Let a consumer go on at `next_snapshot`; None forgets it."""

    module = "versions.consumers"
    job = "ResetConsumer"
    parameters: ClassVar = {"consumer": "text", "next_snapshot": "int"}


class ClearConsumersOperator(ChoreOperator):
    """Forget consumers by regular expressions on their names."""

    module = "versions.consumers"
    job = "ClearConsumers"
    parameters: ClassVar = {"including": "text", "excluding": "text"}


class ExpireConsumersOperator(ChoreOperator):
    """Forget consumers that have not moved for a time; None is the table's option.

    :param expiration: for example `30 d`.
    """

    module = "versions.consumers"
    job = "ExpireConsumers"
    parameters: ClassVar = {"expiration": "span"}
