"""Floating-point numbers as Java before version 19 prints them; Java 17 printed the recorded ones."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore.types.float_text import java_float_text

RECORDED = Path(__file__).parent / "testdata" / "java17_floats.txt"
"""A line is the kind (f, d), the bits and the text: random bits, powers of ten and of two, whole numbers, numbers
without a full precision and decimal fractions."""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"), (1e7, "1.0E7"), (9999999.0, "9999999.0"), (0.001, "0.001"), (0.00099, "9.9E-4"),
        (1e20, "1.0E20"), (-0.0, "-0.0"), (5e-324, "4.9E-324"), (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"), (float("-inf"), "-Infinity"), (631804.3570397265, "631804.3570397265"),
    ],
)  # fmt: skip
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    assert java_float_text(value, single=False) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(6521.2188, "6521.2188"), (1.4e-45, "1.4E-45"), (0.1, "0.1"), (3.4028235e38, "3.4028235E38")],
)
def test_floats_as_java_prints_them(value: float, text: str) -> None:
    assert java_float_text(float(np.float32(value)), single=True) == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_come_back(value: float) -> None:
    assert np.float32(java_float_text(value, single=True)) == np.float32(value)


def test_recorded_numbers() -> None:
    wrong = []
    for line in RECORDED.read_text().splitlines():
        kind, bits, text = line.split()
        code, size = (">f", 4) if kind == "f" else (">d", 8)
        (value,) = struct.unpack(code, int(bits, 16).to_bytes(size))
        if java_float_text(value, single=kind == "f") != text:
            wrong.append((line, java_float_text(value, single=kind == "f")))
    assert wrong == []


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_come_back(value: float) -> None:
    assert float(java_float_text(value, single=False)) == value
