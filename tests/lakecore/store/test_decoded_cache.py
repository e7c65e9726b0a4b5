"""Decoding once: the bytes decide, memory is bounded."""

from __future__ import annotations

import pytest

from lakecore.errors import CorruptDataError
from lakecore.store.decoded_cache import DecodedCache


class Counting:
    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def __call__(self, data: bytes, path: str) -> list[str]:
        self.seen.append(data)
        if data == b"broken":
            raise CorruptDataError(path, "broken")
        return data.decode().split()


def test_the_same_bytes_of_a_path_are_decoded_once() -> None:
    decode, known = Counting(), DecodedCache[list[str]](100)
    assert known.of(b"a b", "x", decode) is known.of(b"a b", "x", decode)
    assert decode.seen == [b"a b"]
    assert known.of(b"a b", "y", decode) == ["a", "b"]
    assert decode.seen == [b"a b", b"a b"]


def test_other_bytes_under_the_same_path_are_seen() -> None:
    decode, known = Counting(), DecodedCache[list[str]](100)
    known.of(b"a b", "x", decode)
    with pytest.raises(CorruptDataError, match="x: broken"):
        known.of(b"broken", "x", decode)
    assert known.of(b"c", "x", decode) == ["c"]
    assert known.of(b"a b", "x", decode) == ["a", "b"]


def test_the_least_recently_used_leave_first_and_large_ones_at_once() -> None:
    decode, known = Counting(), DecodedCache[list[str]](9)
    for path in ("x", "y", "x", "z"):
        known.of(b"a b", path, decode)
    assert len(decode.seen) == 3
    known.of(b"", "empty", decode)  # one more item than there is room for: y leaves
    known.of(b"a b", "x", decode)
    assert len(decode.seen) == 4
    known.of(b"a b", "y", decode)
    assert len(decode.seen) == 5
    for _ in range(2):
        known.of(b"a " * 20, "large", decode)
    assert len(decode.seen) == 7
