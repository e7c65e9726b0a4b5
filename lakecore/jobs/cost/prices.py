"""This module has what maintenance costs in money: a price list, and sums by it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, printable

__all__ = ["PriceList"]

_GB = 1 << 30
_HOUR_S = 3600
_CURRENCY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """These are the prices of a core for an hour, and of 2^30 bytes for a month; None is unknown."""

    core_hour: float | None = None
    gb_month: float | None = None
    currency: str = ""

    @staticmethod
    def names() -> tuple[str, str, str]:
        """Return the fields of a connection that have the prices."""
        return "price_core_hour", "price_gb_month", "currency"

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> PriceList:
        """Read the fields of a connection; an empty one is not known. Raises InvalidInputError."""
        core_hour, gb_month, currency = cls.names()
        text = printable(str(raw.get(currency) or ""), _CURRENCY)
        return cls(core_hour=_price(raw, core_hour), gb_month=_price(raw, gb_month), currency=text)

    def work(self, core_seconds: float | None) -> float | None:
        """Return what core seconds cost."""
        if self.core_hour is None or core_seconds is None:
            return None
        return self.core_hour * core_seconds / _HOUR_S

    def core_seconds(self, money: float) -> float:
        """Return the core seconds that money buys. Raises InvalidInputError without its price."""
        if not self.core_hour:
            raise InvalidInputError("a budget of money needs the field price_core_hour of the connection")
        return money / self.core_hour * _HOUR_S

    def storage(self, size: int) -> float | None:
        """Return what bytes cost in a month."""
        return None if self.gb_month is None else self.gb_month * size / _GB


def _price(raw: Mapping[str, Any], name: str) -> float | None:
    value = raw.get(name)
    if value is None or str(value).strip() == "":
        return None
    try:
        price = float(value)
    except (TypeError, ValueError):
        price = math.nan
    if not (math.isfinite(price) and price >= 0):
        raise InvalidInputError(f"{name}={value!r}: write a price, such as 0.05")
    return price
