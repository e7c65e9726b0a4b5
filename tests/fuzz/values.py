"""Values of random rows by column type, and which types may stand where."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

__all__ = ["INDEXED", "KEY_TYPES", "PARTITION_TYPES", "SUMMABLE", "TEXTS", "TYPES", "WIDER"]

Value = Callable[[random.Random], Any]

TEXTS = ("", "a", "b", "ab", "Z", "ü", "long text, longer than a word", "日本", "a b")
TYPES: dict[str, Value] = {
    "INT": lambda dice: dice.choice((0, 1, -1, 7, 2_147_483_647, -2_147_483_648)),
    "BIGINT": lambda dice: dice.choice((0, 1, -5, 1 << 40, -(1 << 62))),
    "SMALLINT": lambda dice: dice.randint(-9, 9),
    "TINYINT": lambda dice: dice.randint(-128, 127),
    "DOUBLE": lambda dice: dice.choice((0.0, 1.5, -2.25, 1024.0)),
    "FLOAT": lambda dice: dice.choice((0.0, 1.5, -2.25)),
    "BOOLEAN": lambda dice: dice.random() < 0.5,
    "STRING": lambda dice: dice.choice(TEXTS),
    "VARCHAR(20)": lambda dice: dice.choice(TEXTS)[:20],
    "BYTES": lambda dice: dice.choice(("0x", "0x00", "0x0aff", "0x" + "ab" * 20)),
    "DECIMAL(9, 2)": lambda dice: f"{dice.randint(-999, 999)}.{dice.randint(0, 99):02d}",
    "DECIMAL(25, 3)": lambda dice: f"{dice.randint(-10**15, 10**15)}.{dice.randint(0, 999):03d}",
    "DATE": lambda dice: dice.choice(("1970-01-01", "2024-02-29", "1969-12-31")),
    "TIMESTAMP(3)": lambda dice: dice.choice(("2024-01-02 03:04:05.678", "1965-05-05 05:05:05.001")),
    "TIMESTAMP(6)": lambda dice: dice.choice(("2024-01-02 03:04:05.678901", "1970-01-01 00:00:00.000001")),
    "ARRAY<INT>": lambda dice: [dice.choice((1, 2, None)) for _ in range(dice.randint(0, 3))],
    "MAP<STRING, INT>": lambda dice: [[text, dice.choice((1, None))] for text in dice.sample(TEXTS[1:4], dice.randint(0, 2))],
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": lambda dice: dice.choice(("2024-01-02 03:04:05.678Z", "1965-05-05 05:05:05.001Z")),
    "TIME(3)": lambda dice: dice.choice(("00:00:00.001", "23:59:59.999")),
    "CHAR(3)": lambda dice: dice.choice(("abc", "日本語", "a  ")),
    "BINARY(2)": lambda dice: dice.choice(("0x0000", "0xffff")),
    "DECIMAL(38, 10)": lambda dice: f"{dice.randint(-10**27, 10**27)}.{dice.randint(0, 10**10 - 1):010d}",
    "ARRAY<ROW<x INT, y MAP<STRING, INT>>>": lambda dice: [dice.choice((None, {"x": 1, "y": [["a", None]]})) for _ in range(dice.randint(0, 2))],
    "ROW<x INT, y STRING>": lambda dice: {"x": dice.choice((1, None)), "y": dice.choice(TEXTS)},
}  # fmt: skip
KEY_TYPES = (
    "INT",
    "BIGINT",
    "STRING",
    "SMALLINT",
    "DATE",
    "DECIMAL(9, 2)",
    "TIMESTAMP(3)",
    "BOOLEAN",
    "BYTES",
)
PARTITION_TYPES = ("INT", "STRING", "DATE", "BOOLEAN")
INDEXED = ("INT", "BIGINT", "STRING", "SMALLINT", "DATE")
"""Types that file indexes take in every release."""
WIDER = {
    "INT": "BIGINT",
    "SMALLINT": "INT",
    "TINYINT": "SMALLINT",
    "FLOAT": "DOUBLE",
    "DECIMAL(9, 2)": "DECIMAL(12, 2)",
}
SUMMABLE = ("INT", "BIGINT", "SMALLINT", "DOUBLE", "DECIMAL(9, 2)")
