"""The blocks of many avro manifests are inflated into groups here, each of which is decoded at once.

A group has blocks of one schema. Buffers are used again: memory that a process touches first is slow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.format.avro.container import AvroBlock, AvroContainer
from lakecore.format.avro.vectorized import LANE_PADDING
from lakecore.metadata.manifest.entry_request import EntryRequest

__all__ = ["BlockGroup", "GroupBuffers", "read_groups"]

Bytes: TypeAlias = npt.NDArray[np.uint8]
I64: TypeAlias = npt.NDArray[np.int64]

_FIRST_GROUP_SIZE = 16 << 20
_GROUP_SIZE = 128 << 20
"""Inflated bytes decoded together: some 2,000 lanes, and small enough to hold twice."""
_SEARCHERS = 4
"""Threads that inflate and search: inflating lets the others run."""
_SEARCHED_TOGETHER = 8
"""Blocks that are searched at once: fewer calls, and few others are searched again beside a wanted one."""
_SEARCH_ROOM = 1 << 20
"""Room for the records of such blocks: usual ones have some 64 KB each; larger ones are searched alone."""

_Block: TypeAlias = tuple[AvroContainer, AvroBlock]


@dataclass(frozen=True, slots=True)
class BlockGroup:
    """Blocks of one schema, inflated: block i is `data[ends[i - 1]:ends[i]]`; padding follows the last."""

    schema_text: bytes
    blocks: tuple[_Block, ...]
    data: Bytes
    ends: I64
    left_out: int
    """These are the records of further blocks of these manifests, none of which has a wanted partition."""
    buffer: Bytes
    """It holds `data`, and is used again for a later group."""


class _Filling:
    """A group that takes up blocks until its buffer is full."""

    def __init__(self, schema_text: bytes, buffer: Bytes) -> None:
        self.schema_text = schema_text
        self.left_out = 0
        self._buffer = buffer
        self._blocks: list[_Block] = []
        self._ends: list[int] = []
        self._size = 0

    def has_room(self, size: int) -> bool:
        return self._size + size + LANE_PADDING <= len(self._buffer)

    def add(self, block: _Block, data: bytes) -> None:
        self._buffer[self._size : self._size + len(data)] = np.frombuffer(data, np.uint8)
        self._size += len(data)
        self._blocks.append(block)
        self._ends.append(self._size)

    @property
    def is_empty(self) -> bool:
        return not self._blocks and not self.left_out

    def group(self) -> BlockGroup:
        data = self._buffer[: self._size + LANE_PADDING]
        data[self._size :] = 0
        ends = np.array(self._ends, np.int64)
        return BlockGroup(self.schema_text, tuple(self._blocks), data, ends, self.left_out, self._buffer)


class GroupBuffers:
    """It holds the buffers of groups. One thread takes them, another releases them."""

    def __init__(self) -> None:
        self._free: list[Bytes] = []
        self._next_size = _FIRST_GROUP_SIZE

    def take(self, least: int = 0) -> Bytes:
        """Return a buffer with room for a block of `least` bytes; the first ones are small, so that decoding
        starts early.
        """
        while self._free:
            buffer = self._free.pop()
            if len(buffer) >= least + LANE_PADDING:
                return buffer
        size = max(self._next_size, least)
        self._next_size = min(2 * self._next_size, _GROUP_SIZE)
        return np.empty(size + LANE_PADDING, np.uint8)

    def release(self, buffer: Bytes) -> None:
        if len(buffer) >= _GROUP_SIZE:
            self._free.append(buffer)


def read_groups(
    containers: Iterable[AvroContainer], request: EntryRequest, buffers: GroupBuffers
) -> Iterator[BlockGroup]:
    """Yield groups in order."""
    filling: _Filling | None = None
    for container, content in _contents(containers, request):
        if filling is None or container.schema_text != filling.schema_text:
            if filling is not None and not filling.is_empty:
                yield filling.group()
            filling = _Filling(container.schema_text, buffers.take())
        for block, data in content:
            if data is None:
                filling.left_out += block.count
                continue
            if not filling.has_room(len(data)):
                if not filling.is_empty:
                    yield filling.group()
                filling = _Filling(container.schema_text, buffers.take(len(data)))
            filling.add((container, block), data)
    if filling is not None and not filling.is_empty:
        yield filling.group()


_Content: TypeAlias = tuple[AvroBlock, bytes | None]
"""A block, and its records; None where no record is wanted."""


def _contents(
    containers: Iterable[AvroContainer], request: EntryRequest
) -> Iterator[tuple[AvroContainer, Iterable[_Content]]]:
    """Yield the blocks of each manifest, inflated. Where blocks are searched, and few will stay, several
    manifests are worked on at once.
    """
    if request.blocks is not None or not request.pieces:
        for container in containers:
            yield container, _contents_of(container, request)
        return
    with ThreadPoolExecutor(_SEARCHERS, thread_name_prefix="search") as pool:
        ahead: deque[tuple[AvroContainer, Future[list[_Content]]]] = deque()
        for container in containers:
            ahead.append((container, pool.submit(_search, container, request)))
            if len(ahead) > _SEARCHERS:
                container, content = ahead.popleft()
                yield container, content.result()
        for container, content in ahead:
            yield container, content.result()


def _contents_of(container: AvroContainer, request: EntryRequest) -> Iterable[_Content]:
    """Return the blocks of a manifest, in order, inflated but for those of which it is known that they have
    no wanted entry.
    """
    mask = None if request.blocks is None else request.blocks.of(container.path)
    if mask is None:
        return _search(container, request) if request.pieces else _all_blocks(container)
    if len(mask) != len(container.blocks):
        raise CorruptDataError(
            container.path,
            f"has {len(container.blocks)} blocks, but it had {len(mask)} when it was read before",
        )
    blocks = zip(container.blocks, mask.tolist(), strict=True)
    return ((block, _inflate(container, block) if is_needed else None) for block, is_needed in blocks)


def _all_blocks(container: AvroContainer) -> Iterator[_Content]:
    return ((block, _inflate(container, block)) for block in container.blocks)


def _inflate(container: AvroContainer, block: AvroBlock) -> bytes:
    data = container.inflate(block)
    if block.count > len(data):
        raise CorruptDataError(
            container.path, f"has a block of {len(data)} bytes that claims {block.count} records"
        )
    return data


def _search(container: AvroContainer, request: EntryRequest) -> list[_Content]:
    """Return the blocks of a manifest, in order, with the records of those that may have a wanted one."""
    contents: list[_Content] = []
    room = bytearray(_SEARCH_ROOM if len(container.blocks) > 1 else 0)
    for low in range(0, len(container.blocks), _SEARCHED_TOGETHER):
        blocks = container.blocks[low : low + _SEARCHED_TOGETHER]
        if len(blocks) > 1 and _none_is_wanted(container, blocks, request, room):
            contents += [(block, None) for block in blocks]
            continue
        inflated = ((block, _inflate(container, block)) for block in blocks)
        contents += [(block, data if request.may_hold(data) else None) for block, data in inflated]
    return contents


def _none_is_wanted(
    container: AvroContainer, blocks: Sequence[AvroBlock], request: EntryRequest, room: bytearray
) -> bool:
    """Return True if certainly no record of these blocks is wanted. `room` is overwritten. The number of
    records is compared with the bytes of all blocks together.
    """
    size = container.inflate_all(blocks, room)
    if size is None or sum(block.count for block in blocks) > size:
        return False
    return not request.may_hold(room, size)
