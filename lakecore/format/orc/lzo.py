"""This module decodes LZO1X blocks, as ORC files of codec lzo have them: for their footers, since pyarrow
decodes their rows.

A block is a row of instructions, each of which copies bytes that are already out or bytes that follow it.
"""

from __future__ import annotations

__all__ = ["decompress"]

_AFTER_RUN = 4
_FAR = 0x4000


class _Block:
    def __init__(self, data: bytes, limit: int) -> None:
        self.data = data
        self.limit = limit
        self.out = bytearray()
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def pair(self) -> int:
        return self.byte() | self.byte() << 8

    def length(self, bits: int, most: int) -> int:
        """Return a length, which continues in further bytes when its bits are 0."""
        if bits:
            return bits
        while (more := self.byte()) == 0:
            most += 255
        return most + more

    def literals(self, count: int) -> None:
        if self.at + count > len(self.data) or len(self.out) + count > self.limit:
            raise ValueError(f"an LZO block has more than {self.limit} bytes, or is cut off")
        self.out += self.data[self.at : self.at + count]
        self.at += count

    def repeat(self, distance: int, count: int) -> None:
        start = len(self.out) - distance
        if start < 0 or len(self.out) + count > self.limit:
            raise ValueError(
                f"an LZO block refers {distance} bytes back, but only {len(self.out)} bytes precede"
            )
        part = self.out[start : start + count]
        self.out += (part * (count // len(part) + 1))[:count]


def decompress(data: bytes, limit: int) -> bytes:
    """Return the block decompressed. Raises ValueError, IndexError for what is no block of at most `limit`
    bytes.
    """
    block = _Block(data, limit)
    state = 0
    if data and data[0] > 17:
        count = block.byte() - 17
        block.literals(count)
        state = min(count, _AFTER_RUN)
    while block.at < len(data):
        code = block.byte()
        if code < 16 and state == 0:
            block.literals(block.length(code, 15) + 3)
            state = _AFTER_RUN
            continue
        copied = _match(block, code, state)
        if copied is None:
            break
        distance, count, state = copied
        block.repeat(distance, count)
        block.literals(state)
    return bytes(block.out)


def _match(block: _Block, code: int, state: int) -> tuple[int, int, int] | None:
    """Return how far back a match is, how many bytes it has, and how many literals follow; None at the
    end.
    """
    if code >= 64:
        return (code >> 2 & 7) + (block.byte() << 3) + 1, (code >> 5) + 1, code & 3
    if code >= 32:
        count = block.length(code & 31, 31) + 2
        pair = block.pair()
        return (pair >> 2) + 1, count, pair & 3
    if code >= 16:
        count = block.length(code & 7, 7) + 2
        pair = block.pair()
        distance = ((code & 8) << 11) + (pair >> 2)
        return (distance + _FAR, count, pair & 3) if distance else None
    near = (code >> 2) + (block.byte() << 2)
    return (near + 2049, 3, code & 3) if state == _AFTER_RUN else (near + 1, 2, code & 3)
