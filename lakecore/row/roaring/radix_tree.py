"""This module has the adaptive radix tree in which a 64-bit Roaring bitmap keeps its containers by the
upper 48 bits.

Format: nodes in depth-first order, children by ascending byte. A node is u8 kind, i16 number of children
(both little-endian), u8 length of the prefix, the prefix; then, by kind:

    0 (up to 4 children)    4 bytes: the children's bytes, last place first
    1 (up to 16)            2 times 8 bytes, each last place first
    2 (up to 48)            256 bytes: the place of the child of each byte, 0xFF: none; in eights, last first
    3 (up to 256)           256 bits
    4 (a leaf)              6 bytes of the key, i64 the number of its container

A node grows when a child finds no place, and nothing makes it small again here, so bytes are those of another
writer that added the same keys in the same order.
"""

from __future__ import annotations

import struct
from dataclasses import field
from typing import TypeAlias

import numpy as np

from lakecore.data_class import dataclass

__all__ = ["KEY_BYTES", "Branch", "Leaf", "RadixNode", "insert", "leaves", "read_tree", "tree_bytes"]

KEY_BYTES = 6
_LEAF = 4
_CAPACITY = (4, 16, 48, 256)
_PLACED = 2
"""The kind that remembers a place of each child."""
_BODY = (4, 16, 256, 32)
_NONE = 0xFF


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf has the upper 48 bits of numbers, big-endian, and where their container is."""

    key: bytes
    place: int


@dataclass(slots=True)
class Branch:
    """An inner node: `children` and `places` are found by their byte; only kind 2 has `places`."""

    kind: int
    prefix: bytes
    children: dict[int, RadixNode] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)

    def add(self, byte: int, child: RadixNode) -> None:
        """Add a child for a byte that has none."""
        if len(self.children) == _CAPACITY[self.kind]:
            self.kind += 1
            self.places = {b: i for i, b in enumerate(sorted(self.children))} if self.kind == _PLACED else {}
        if self.kind == _PLACED:
            self.places[byte] = len(self.children)
        self.children[byte] = child


RadixNode: TypeAlias = "Leaf | Branch"


def leaves(node: RadixNode | None) -> list[Leaf]:
    """Return the leaves in the order of keys."""
    leaves_of_tree: list[Leaf] = []
    waiting = [] if node is None else [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Leaf):
            leaves_of_tree.append(one)
        else:
            waiting += [one.children[byte] for byte in sorted(one.children, reverse=True)]
    return leaves_of_tree


def insert(node: RadixNode | None, leaf: Leaf, depth: int = 0) -> RadixNode:
    """Return the node that replaces `node` (changed in place) once it has a leaf of a new key."""
    if node is None:
        return leaf
    prefix = node.key[depth:] if isinstance(node, Leaf) else node.prefix
    common = _common(prefix, leaf.key[depth:])
    if isinstance(node, Branch) and common == len(prefix):
        return _below(node, leaf, depth + common)
    above = Branch(0, prefix[:common])
    if isinstance(node, Branch):
        node.prefix = prefix[common + 1 :]
    above.add(prefix[common], node)
    above.add(leaf.key[depth + common], leaf)
    return above


def _below(node: Branch, leaf: Leaf, depth: int) -> Branch:
    byte = leaf.key[depth]
    if byte in node.children:
        node.children[byte] = insert(node.children[byte], leaf, depth + 1)
    else:
        node.add(byte, leaf)
    return node


def _common(left: bytes, right: bytes) -> int:
    """Return the number of equal bytes at the beginning."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), len(left))


def tree_bytes(node: RadixNode) -> bytes:
    """Return the serialised node with everything below it."""
    parts: list[bytes] = []
    _write(node, parts)
    return b"".join(parts)


def _write(node: RadixNode, parts: list[bytes]) -> None:
    if isinstance(node, Leaf):
        parts.append(struct.pack("<BhB6sq", _LEAF, 0, 0, node.key, node.place))
        return
    parts.append(struct.pack("<BhB", node.kind, len(node.children), len(node.prefix)) + node.prefix)
    children = sorted(node.children)
    if node.kind == _PLACED:
        places = np.full(256, _NONE, np.uint8)
        places[children] = [node.places[byte] for byte in children]
        parts.append(_turn(places.tobytes(), 8))
    elif node.kind < _PLACED:
        size = _BODY[node.kind]
        parts.append(_turn(bytes(children).ljust(size, b"\0"), min(size, 8)))
    else:
        bits = np.zeros(256, bool)
        bits[children] = True
        parts.append(np.packbits(bits, bitorder="little").tobytes())
    for byte in children:
        _write(node.children[byte], parts)


def _turn(data: bytes, width: int) -> bytes:
    """Return the bytes with each group of `width` bytes reversed."""
    return b"".join(data[i : i + width][::-1] for i in range(0, len(data), width))


def read_tree(data: bytes, at: int, path: bytes = b"") -> tuple[RadixNode, int]:
    """Return the node that begins at `at`, below the bytes `path` of its keys, and its end.

    Raises ValueError, IndexError or struct.error where the bytes break the format; at most six nodes deep.
    """
    kind, count, length = struct.unpack_from("<BhB", data, at)
    at += 4 + length
    if kind == _LEAF:
        key, place = struct.unpack_from("<6sq", data, at)
        if not key.startswith(path):
            raise ValueError(f"key {key.hex()} below {path.hex()}")
        return Leaf(key, place), at + 14
    if kind > _LEAF or len(path) + length >= KEY_BYTES:
        raise ValueError(f"a node has kind {kind} below {len(path)} bytes with a prefix of {length}")
    body = data[at : at + _BODY[kind]]
    keys, places = _children(kind, count, body)
    node = Branch(kind, data[at - length : at], places=places)
    at += _BODY[kind]
    for byte in keys:
        node.children[byte], at = read_tree(data, at, path + node.prefix + bytes([byte]))
    return node, at


def _children(kind: int, count: int, body: bytes) -> tuple[list[int], dict[int, int]]:
    """Return the bytes of the children in ascending order, and the places of kind 2."""
    places: dict[int, int] = {}
    if len(body) != _BODY[kind]:
        raise ValueError("the tree ends after the bitmap")
    if kind == _PLACED:
        places = {byte: place for byte, place in enumerate(_turn(body, 8)) if place != _NONE}
        keys = list(places)
    elif kind < _PLACED:
        keys = list(_turn(body, min(len(body), 8))[: max(count, 0)])
    else:
        keys = np.flatnonzero(np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little")).tolist()
    distinct = set(places.values() if places else keys)
    if len(keys) != count or not count or len(distinct) != count or keys != sorted(keys):
        raise ValueError(f"{count} children, but their bytes are {keys}")
    if kind == _PLACED and max(distinct) >= _CAPACITY[_PLACED]:
        raise ValueError(f"a child at place {max(distinct)}")
    return keys, places
