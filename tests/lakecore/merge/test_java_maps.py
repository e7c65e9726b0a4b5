"""The order of a hash map of Java: Java 17 printed the orders of these cases."""

from __future__ import annotations

from functools import partial

import pytest

from lakecore.merge.engines.java_maps import JavaMap

_GROWN = "160 224 163 256 352 416 294 32 128 199 389 257 164 96"
_WIDE = "17 1 33 65536 131072 -1 -17"


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split()]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param("5 21 37 53 69 85 101 117", "5 21 37 53 69 85 101 117", id="eight of one place"),
        pytest.param("5 21 37 53 69 85 101 117 133", "5 37 69 101 133 21 53 85 117", id="the ninth makes it grow"),
        pytest.param(_GROWN, "160 224 256 352 416 32 128 96 257 163 164 389 294 199", id="grown by number"),
        pytest.param(_WIDE, "-1 -17 17 1 33 65536 131072", id="upper halves count"),
    ],
)  # fmt: skip
def test_put(keys: str, expected: str) -> None:
    entries: JavaMap[int] = JavaMap()
    for key in _numbers(keys):
        entries.put(key, key, key)
    assert list(entries.values()) == _numbers(expected)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param("5 21 37 53 69 85 101 117", "101 69 37 5 117 85 53 21", id="the eighth makes it grow"),
        pytest.param(_GROWN, "128 256 257 389 199 96 32 416 352 224 160 163 164 294", id="grown by number"),
        pytest.param(_WIDE, "-17 -1 65536 33 1 17 131072", id="upper halves count"),
    ],
)
def test_compute_if_absent(keys: str, expected: str) -> None:
    entries: JavaMap[int] = JavaMap()
    for key in _numbers(keys):
        assert entries.compute(key, key, partial(int, key)) == key
    assert list(entries.values()) == _numbers(expected)
