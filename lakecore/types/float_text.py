"""This module gives the text of a floating-point number as Java before version 19 prints it
(`Float.toString`, `Double.toString`). Pure.

Names of partition directories and casts to STRING are such texts, and Paimon runs on Java 8, 11 and 17. These
print digits until the number differs from its neighbours, by integers of 32 or 64 bits where those suffice,
and so sometimes one digit more than needed, or another last one: 2 to the power of -44 is
`5.6843418860808015E-14`, where Java 19 prints `5.684341886080802E-14` (JDK-4511638).
"""

from __future__ import annotations

import math
import struct

from lakecore.data_class import dataclass

__all__ = ["java_float_text"]

_FRACTION = 52
_UNLIMITED = 4096
"""This stands for the width of integers without a limit: all numbers of the division have fewer bits."""
_PLAIN = range(-2, 8)
"""A number whose point is so far right of its first digit is written without an exponent."""


@dataclass(frozen=True, slots=True)
class _Binary:
    """This is a positive number: `bits`, of which the highest is bit 52 and has the value 2 to the power of
    `exponent`. `precision` is how many of them the type stores.
    """

    bits: int
    exponent: int
    precision: int


def java_float_text(value: float, *, single: bool) -> str:
    """Return the text of a DOUBLE, or of a FLOAT (`single`): `1.0`, `1.0E20`, `NaN`, `-Infinity`. It has an
    exponent outside [1e-3, 1e7). It takes some microseconds.
    """
    if value != value:
        return "NaN"
    head = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value):
        return f"{head}Infinity"
    if not value:
        return f"{head}0.0"
    digits, point = _digits(_binary(abs(value), single=single))
    if point not in _PLAIN:
        return f"{head}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{head}0.{'0' * -point}{digits}"
    digits = digits.ljust(point, "0")
    return f"{head}{digits[:point]}.{digits[point:] or '0'}"


def _binary(value: float, *, single: bool) -> _Binary:
    stored, bias = (23, 127) if single else (_FRACTION, 1023)
    (raw,) = (
        struct.unpack("<I", struct.pack("<f", value))
        if single
        else struct.unpack("<Q", struct.pack("<d", value))
    )
    exponent, fraction = raw >> stored, raw & ((1 << stored) - 1)
    if exponent:
        return _Binary((fraction | 1 << stored) << (_FRACTION - stored), exponent - bias, stored + 1)
    precision = fraction.bit_length()
    return _Binary(fraction << (_FRACTION + 1 - precision), precision - stored - bias, precision)


def _digits(number: _Binary) -> tuple[str, int]:
    """Return the decimal digits, and how many of them are left of the point."""
    used = _FRACTION + 1 - _trailing_zeros(number.bits)
    below_point = max(0, used - number.exponent - 1)
    if not below_point and number.exponent <= 62:
        return _digits_of_whole(number)
    return _digits_until_unique(number, used, below_point)


def _digits_of_whole(number: _Binary) -> tuple[str, int]:
    whole = number.bits << number.exponent >> _FRACTION
    beyond = number.exponent - number.precision - 1
    zeros = len(str(1 << beyond)) - 1 if number.exponent > number.precision and beyond > 1 else 0
    if zeros:
        unit = 10**zeros
        whole, rest = divmod(whole, unit)
        whole += rest >= unit // 2
    return str(whole).rstrip("0"), len(str(whole)) + zeros


def _digits_until_unique(number: _Binary, used: int, below_point: int) -> tuple[str, int]:
    """Return the digits of a number as the quotient of two integers, beside half of the distance to the next
    number of the type.
    """
    power = _estimated_power(number)
    fives, value_fives = max(0, power), max(0, -power)
    value_twos = value_fives + below_point + number.exponent
    unit_twos = fives + below_point
    gap_twos = value_twos - number.precision
    value_twos -= used - 1
    common = min(value_twos, unit_twos)
    value_twos, unit_twos, gap_twos = value_twos - common, unit_twos - common, gap_twos - common
    gap_twos -= used == 1  # the next lower number is nearer
    if gap_twos < 0:
        value_twos, unit_twos, gap_twos = value_twos - gap_twos, unit_twos - gap_twos, 0
    size = max(used + value_twos + _bits_of_fives(value_fives), unit_twos + 1 + _bits_of_fives(fives + 1))
    width = 32 if size < 32 else 64 if size < 64 else _UNLIMITED
    value = (number.bits >> (_FRACTION + 1 - used)) * 5**value_fives << value_twos
    return _develop(value, 5**fives << unit_twos, 5**value_fives << gap_twos, power, width)


def _develop(value: int, unit: int, half_gap: int, power: int, width: int) -> tuple[str, int]:
    """Divide until the digits tell the number from its neighbours. `width` is that of Java's integers, which
    may overflow.
    """
    tens, limit = unit * 10, 1 << (width - 1)
    digits: list[int] = []
    low = high = False
    steps = 0
    while not (low or high):
        digit, rest = divmod(value, unit)
        value, half_gap = 10 * rest, half_gap * 10
        if half_gap >= limit:
            half_gap = _as_java_integer(half_gap, width)
        above = value + half_gap
        if above >= limit:
            above = _as_java_integer(above, width)
        low = value < half_gap
        high = above > tens or (above == tens and width == _UNLIMITED)
        steps += 1
        if steps > 1:
            digits.append(digit)
            if half_gap <= 0:
                low = high = True
            continue
        if digit or high:
            digits.append(digit)
        else:
            power -= 1
        if not -3 <= power < 8:  # there is a second digit where there is an exponent
            low = high = False
    if high and (not low or _is_above_half(2 * value - tens, digits[-1])):
        return _round_up(digits, power + 1)
    return "".join(map(str, digits)), power + 1


def _is_above_half(difference: int, last_digit: int) -> bool:
    return difference > 0 or (difference == 0 and last_digit % 2 == 1)


def _round_up(digits: list[int], point: int) -> tuple[str, int]:
    text = str(int("".join(map(str, digits))) + 1).rjust(len(digits), "0")
    return (text[: len(digits)], point + 1) if len(text) > len(digits) else (text, point)


def _estimated_power(number: _Binary) -> int:
    """Return the power of ten of the first digit, or one more."""
    fraction = number.bits / (1 << _FRACTION)
    return math.floor((fraction - 1.5) * 0.289529654 + 0.176091259 + number.exponent * 0.301029995663981)


def _bits_of_fives(count: int) -> int:
    """Return how many bits Java allows for a power of five."""
    if count > 26:
        return count * 3
    return (5**count).bit_length() if count else 0


def _as_java_integer(value: int, width: int) -> int:
    half = 1 << (width - 1)
    return (value + half) % (2 * half) - half


def _trailing_zeros(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
