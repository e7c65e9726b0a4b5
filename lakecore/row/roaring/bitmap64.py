"""This module reads and writes bitmaps of 64-bit numbers in the serialisation of Java's Roaring64Bitmap
(RoaringBitmap 1.x, not portable).

Format: u8 0: no numbers, nothing follows; u8 1: i64 number of keys, the tree of keys (`radix_tree`), then the
containers: i32 number of arrays (one, below 2^31 containers); of each array u8 0xFE, i32 places, and at each
place u8 0 (none) or u8 1, u8 kind, i32 cardinality, body; i64 number of containers, i32 last array, i32 last
place. All but the keys is little-endian. Places grow by half when a container finds none, and the bytes show
it.

A union adds to the older bitmap: containers of new keys come last, in the order of keys.
"""

from __future__ import annotations

import struct
from itertools import groupby

import numpy as np
from pyroaring import BitMap

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError
from lakecore.row.roaring.bitmap32 import (
    MAX_ARRAY,
    Container,
    Kind,
    containers,
    decode_roaring,
    read_container,
    stream_of,
)
from lakecore.row.roaring.radix_tree import Leaf, RadixNode, insert, leaves, read_tree, tree_bytes

__all__ = ["numbers_of", "union64"]

_FULL_ARRAY = 0xFE
_SEGMENT = 1 << 16
"""Containers that one 32-bit bitmap takes, by their places."""


@dataclass(slots=True)
class _Bitmap:
    """A bitmap that is being changed: `places[i]` is the container at place i, and `last` the place of the
    newest container (-1: there is none).
    """

    root: RadixNode | None
    places: list[Container | None]
    last: int

    def append(self) -> int:
        """Return a place for one more container."""
        self.last += 1
        if self.last >= len(self.places):
            room = max(len(self.places) + len(self.places) // 2, self.last + 1)
            self.places += [None] * (room - len(self.places))
        return self.last


def union64(older: bytes, newer: bytes, path: str) -> bytes:
    """Return the bitmap of the numbers of both. Raises CorruptDataError naming `path`.

    Cost: as many steps of Python as there are containers (keys of 48 bits); the numbers are united by the
    library.
    """
    base, added = _decode(older, path), _decode(newer, path)
    places = {leaf.key: leaf.place for leaf in leaves(base.root)}
    moved: list[tuple[int, Container]] = []
    for leaf in leaves(added.root):
        place = places.get(leaf.key)
        if place is None:
            place = base.append()
            base.root = insert(base.root, Leaf(leaf.key, place))
        moved.append((place, _container(added, leaf)))
    own = [(leaf, _container(base, leaf)) for leaf in leaves(base.root) if leaf.key in places]
    _unite(base, [(leaf.place, container) for leaf, container in own], moved)
    return _encode(base)


def numbers_of(data: bytes, path: str) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the numbers of a bitmap, ascending (unsigned). Raises CorruptDataError naming `path`."""
    bitmap = _decode(data, path)
    parts = []
    for leaf in leaves(bitmap.root):
        low, _ = decode_roaring(stream_of([(0, _container(bitmap, leaf))]), 0, path)
        upper = np.uint64(int.from_bytes(leaf.key, "big") << 16)
        parts.append(np.array(low, np.uint64) | upper)
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def _container(bitmap: _Bitmap, leaf: Leaf) -> Container:
    container = bitmap.places[leaf.place]
    assert container is not None  # the decoder saw to it
    return container


def _unite(into: _Bitmap, own: list[tuple[int, Container]], added: list[tuple[int, Container]]) -> None:
    """Put the union of two lists of containers into a bitmap, segment by segment: both are read as 32-bit
    bitmaps whose upper bits are places. All containers were checked.
    """
    both = sorted([(*item, 0) for item in own] + [(*item, 1) for item in added], key=lambda item: item[0])
    for segment, group in groupby(both, key=lambda item: item[0] // _SEGMENT):
        items = list(group)
        union = BitMap()
        for side in (0, 1):
            part = [(place % _SEGMENT, container) for place, container, whose in items if whose == side]
            if part:
                union |= BitMap.deserialize(stream_of(part))
        union.run_optimize()
        for place, container in containers(union.serialize(), trusted=True)[0]:
            into.places[segment * _SEGMENT + place] = container


def _encode(bitmap: _Bitmap) -> bytes:
    if bitmap.root is None:
        return b"\0"
    parts = [struct.pack("<Bq", 1, len(leaves(bitmap.root))), tree_bytes(bitmap.root)]
    parts.append(struct.pack("<iBi", 1, _FULL_ARRAY, len(bitmap.places)))
    for container in bitmap.places:
        if container is None:
            parts.append(b"\0")
        else:
            parts.append(struct.pack("<BBi", 1, container.kind, container.cardinality) + container.body)
    stored = sum(container is not None for container in bitmap.places)
    parts.append(struct.pack("<qii", stored, 0, bitmap.last))
    return b"".join(parts)


def _decode(data: bytes, path: str) -> _Bitmap:
    try:
        return _read(data)
    except (ValueError, IndexError, struct.error) as err:
        raise CorruptDataError(path, f"not a 64-bit bitmap of {len(data)} bytes: {err}") from err


def _read(data: bytes) -> _Bitmap:
    if data[0] == 0:
        return _Bitmap(None, [], -1)
    (keys,) = struct.unpack_from("<q", data, 1)
    root, at = read_tree(data, 9)
    (arrays,) = struct.unpack_from("<i", data, at)
    if arrays != 1:
        raise ValueError(f"{arrays} arrays of containers")
    places, at = _read_places(data, at + 4)
    stored, array, last = struct.unpack_from("<qii", data, at)
    items = leaves(root)
    used = {leaf.place for leaf in items}
    if len(items) != keys or len(used) != keys:
        raise ValueError(f"{len(items)} keys and {len(used)} containers, not {keys}")
    if array != 0 or not 0 <= last < len(places) or stored < keys:
        raise ValueError(f"{stored} containers, the last at {array}/{last}")
    if any(not 0 <= place <= last or places[place] is None for place in used):
        raise ValueError("a key has no container")
    return _Bitmap(root, places, last)


def _read_places(data: bytes, at: int) -> tuple[list[Container | None], int]:
    _, count = struct.unpack_from("<Bi", data, at)
    at += 5
    if not 0 <= count <= len(data) - at:
        raise ValueError(f"{count} places in {len(data) - at} bytes")
    places: list[Container | None] = []
    for _ in range(count):
        mark = data[at]
        at += 1
        if mark == 0:
            places.append(None)
            continue
        kind, cardinality = struct.unpack_from("<Bi", data, at)
        if mark != 1 or not 0 < cardinality <= 1 << 16:
            raise ValueError(f"a container has mark {mark} and {cardinality} numbers")
        container, at = read_container(data, at + 5, Kind(kind), cardinality)
        places.append(_usual(container))
    return places, at


def _usual(container: Container) -> Container:
    """Return the container as an array or as a bit set, whichever is usual for its cardinality."""
    kind, size, body = container.kind, container.cardinality, container.body
    if kind is Kind.BITS and size <= MAX_ARRAY:
        bits = np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little")
        return Container(Kind.ARRAY, size, np.flatnonzero(bits).astype("<u2").tobytes())
    if kind is Kind.ARRAY and size > MAX_ARRAY:
        bits = np.zeros(1 << 16, bool)
        bits[np.frombuffer(body, "<u2")] = True
        return Container(Kind.BITS, size, np.packbits(bits, bitorder="little").tobytes())
    return container
