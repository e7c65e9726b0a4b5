"""Operators on the positions of streaming consumers: reset, clear, expire."""

from __future__ import annotations

from typing import ClassVar

from operators.chore import ChoreOperator

__all__ = ["ClearConsumersOperator", "ExpireConsumersOperator", "ResetConsumerOperator"]


class ResetConsumerOperator(ChoreOperator):
    """Set the position of a consumer to `next_snapshot`; None deletes the consumer."""

    module = "versions.consumers"
    job = "ResetConsumer"
    parameters: ClassVar = {"consumer": "text", "next_snapshot": "int"}


class ClearConsumersOperator(ChoreOperator):
    """Delete the consumers whose names match regular expressions."""

    module = "versions.consumers"
    job = "ClearConsumers"
    parameters: ClassVar = {"including": "text", "excluding": "text"}


class ExpireConsumersOperator(ChoreOperator):
    """Delete the consumers that have not moved for a given time; None takes the table's option.

    :param expiration: for example `30 d`.
    """

    module = "versions.consumers"
    job = "ExpireConsumers"
    parameters: ClassVar = {"expiration": "span"}
