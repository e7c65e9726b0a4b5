"""LZO blocks that are put together by hand; tests/interop reads files of Java's that have some."""

from __future__ import annotations

import pytest

from lakecore.format.orc.lzo import decompress

BEHIND = bytes(number * 7 % 251 for number in range(0x4000 + 300))
"""More bytes than the other kinds of matches reach back."""


def run(data: bytes) -> bytes:
    """Literals behind a match that none follow: their number is 18 or more."""
    rest = len(data) - 18
    return bytes([0, *[0] * (rest // 255), rest % 255]) + data


def far(distance: int, count: int) -> bytes:
    """A match beyond 16 KB; 9 and more bytes have their number behind the instruction."""
    back = distance - 0x4000
    short = count - 2 if count < 10 else 0
    more = [] if short else [*[0] * ((count - 10) // 255), (count - 10) % 255 + 1]
    return bytes([16 | back >> 11 & 8 | short, *more, (back & 0x3F) << 2, back >> 6 & 0xFF])


END = bytes([17, 0, 0])


@pytest.mark.parametrize("count", [3, 9, 10, 40, 900])
@pytest.mark.parametrize("distance", [0x4001, 0x4000 + 299])
def test_matches_far_behind(distance: int, count: int) -> None:
    """The second one follows another match at once."""
    expected = bytearray(BEHIND)
    for _ in range(2):
        for _ in range(count):
            expected.append(expected[-distance])
    block = run(BEHIND) + far(distance, count) * 2 + END
    assert decompress(block, len(expected)) == bytes(expected)
    with pytest.raises(ValueError, match="LZO"):
        decompress(block, len(expected) - 1)
