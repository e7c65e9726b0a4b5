"""Texts of options become typed values; a bad one names its key, its value and what to write."""

from __future__ import annotations

from enum import Enum

import pytest

from lakecore.errors import InvalidOptionError
from lakecore.options import Option, parse_bool, parse_duration_ms, parse_enum, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8 mb", 8 << 20),
        ("8MB", 8 << 20),
        ("500 bytes", 500),
        ("42", 42),
        ("1g", 1 << 30),
        ("3 kibibytes", 3 << 10),
    ],
)
def test_sizes_are_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1 h", 3_600_000),
        ("10 s", 10_000),
        ("250", 250),
        ("1 d", 86_400_000),
        ("PT1H30M", 5_400_000),
        ("P2D", 172_800_000),
    ],
)
def test_durations_are_milliseconds(text: str, millis: int) -> None:
    assert parse_duration_ms(text) == millis


@pytest.mark.parametrize("text", ["", "mb", "8 xb", "-3 mb", "1.5 mb", "P", "PT"])
def test_a_bad_size_or_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_size(text)
    with pytest.raises(ValueError, match="not a"):
        parse_duration_ms(text)


class Color(Enum):
    DARK_RED = "dark-red"


def test_an_option_reads_old_keys_and_its_default() -> None:
    option = Option("new.key", parse_bool, False, "…", ("old.key",))
    assert option.read({"old.key": "TRUE"}) is True
    assert option.read({"new.key": "false", "old.key": "true"}) is False
    assert option.read({}) is False


def test_a_bad_value_names_key_value_and_choices() -> None:
    option = Option("color", parse_enum(Color), Color.DARK_RED, "…")
    assert option.read({"color": "DARK-RED"}) is Color.DARK_RED
    with pytest.raises(InvalidOptionError, match=r"option color='dark_red': it must be one of dark-red"):
        option.read({"color": "dark_red"})
