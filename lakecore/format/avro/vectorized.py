"""This module decodes Avro records in lock-step: one lane per block, one record per lane and step, in numpy.

A record cannot be found without decoding the one before it, but blocks are independent. Each step of the
machine handles one field of one record in every block at once. `compile_root` turns a schema into such steps;
values of wanted fields land in output columns, others are skipped.

Damage raises ValueError or IndexError: at the latest when a lane does not end where its block does. Lanes
only ever move forward, and lengths and counts are bounded: no damage costs more than a whole decode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lakecore.data_class import dataclass
from lakecore.format.avro.schema import AvroArray, AvroNode, AvroPrimitive, AvroRecord, AvroUnion
from lakecore.format.avro.values import Skip

__all__ = ["LANE_PADDING", "LaneOutput", "Lanes", "Step", "compile_root", "decode_blocks", "lanes_of"]

U64: TypeAlias = npt.NDArray[np.uint64]
I64: TypeAlias = npt.NDArray[np.int64]

LANE_PADDING = 16
"""So many spare bytes follow the last block: a lane reads words of eight bytes from any position."""

_ONE = np.uint64(1)
_LOW_BIT = 1
_CONTINUES = np.uint64(0x8080808080808080)
_CONTINUES_AFTER_FIRST = np.uint64(0x8080808080808000)
_PAYLOAD = np.uint64(0x7F7F7F7F7F7F7F7F)
_FOLDS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_MAX_LENGTH_BITS = 32
_MAX_ITEMS = 1 << 16
_MIN_LANES = 32
"""With fewer lanes than this, one record after the other in plain Python is faster."""
_FIXED_SIZES = {"boolean": 1, "float": 4, "double": 8}


@dataclass(frozen=True, slots=True)
class LaneOutput:
    """Values are written to these columns, which are by field name. `required` are fields that must be
    present and not null.

    `longs`: values. `starts`, `lengths`: where bytes lie in the buffer. `sparse`: fields that are usually
    empty, as lists of (record, start, length) for those that are not; an array's bytes are its avro encoding.
    `arrays`: the same for arrays, of which empty ones count as well.
    """

    required: frozenset[str] = frozenset()
    longs: Mapping[str, I64] = field(default_factory=dict)
    starts: Mapping[str, I64] = field(default_factory=dict)
    lengths: Mapping[str, I64] = field(default_factory=dict)
    sparse: Mapping[str, list[tuple[I64, I64, I64]]] = field(default_factory=dict)
    arrays: Mapping[str, list[tuple[I64, I64, I64]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The inflated blocks, one after the other, as bytes and as the word at every position."""

    data: npt.NDArray[np.uint8]
    words: U64
    out: LaneOutput


Step: TypeAlias = Callable[[Lanes, I64, I64], I64]
"""A step maps (lanes, positions, numbers of the records being decoded) to the positions after the field."""


def lanes_of(data: npt.NDArray[np.uint8], out: LaneOutput) -> Lanes:
    """Return the lanes over `data`, which ends with LANE_PADDING spare bytes."""
    words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    return Lanes(data, words, out)


def compile_root(schema: AvroNode, out: LaneOutput) -> Step:
    """Return the steps for whole records; fields are named by their path, as `_FILE._LEVEL`.

    Raises ValueError where a required field is missing, and for types that have no lock-step form (maps,
    unions of more than null and a type).
    """
    names = frozenset(_names(schema, ""))
    if not out.required <= names:
        raise ValueError(f"column {sorted(out.required - names)[0]} is missing")
    return _compile(schema, "", out)


def _names(node: AvroNode, prefix: str) -> Iterator[str]:
    match node:
        case AvroRecord(fields):
            for part in fields:
                yield prefix + part.name
                yield from _names(part.type, f"{prefix}{part.name}.")
        case AvroUnion(branches):
            for branch in branches:
                yield from _names(branch, prefix)


def _record(record: AvroRecord, prefix: str, out: LaneOutput) -> Step:
    steps = [_compile(part.type, prefix + part.name, out) for part in record.fields]

    def run(lanes: Lanes, at: I64, record: I64) -> I64:
        for step in steps:
            at = step(lanes, at, record)
        return at

    return run


def _compile(node: AvroNode, name: str, out: LaneOutput) -> Step:
    _check_wanted(node, name, out)
    match node:
        case AvroRecord():
            return _record(node, name and name + ".", out)
        case AvroPrimitive("int" | "long" | "enum"):
            return _store_long(name) if name in out.longs else _skip_long
        case AvroPrimitive("bytes" | "string"):
            return _bytes_step(name, out)
        case AvroPrimitive("fixed"):
            return _skip_fixed(node.size)
        case AvroPrimitive(kind) if kind in _FIXED_SIZES:
            return _skip_fixed(_FIXED_SIZES[kind])
        case AvroArray(items):
            return _array_step(items, name, out)
        case AvroUnion((AvroPrimitive("null"), inner)):
            return _optional(_compile(inner, name, out), 2, required=_must_be(inner, name, out))
        case AvroUnion((inner, AvroPrimitive("null"))):
            return _optional(_compile(inner, name, out), 0, required=_must_be(inner, name, out))
        case _:
            raise ValueError(f"type {name} cannot be decoded in vectors")


def decode_blocks(run: Step, skip: Skip, lanes: Lanes, ends: I64, counts: I64) -> I64:
    """Run over all records of blocks that end at `ends` and hold `counts` records; where each record starts.

    While many blocks have records left, a step takes the next record of each. The rest, in a few long blocks,
    is found by `skip`, one by one, and then takes a single step. Records are numbered in order.
    """
    starts = np.concatenate([[0], ends[:-1]])
    values = np.empty(int(counts.sum()), np.int64)
    order = np.argsort(-counts, kind="stable")
    first = (np.cumsum(counts) - counts)[order]
    counts_left, ends, at = counts[order], ends[order], starts[order]
    for step in range(int(counts_left.max(initial=0))):
        active = int(np.searchsorted(-counts_left, -step, side="left"))
        if active < _MIN_LANES:
            _decode_rest(
                run,
                skip,
                lanes,
                (at[:active], first[:active] + step, counts_left[:active] - step, ends),
                values,
            )
            break
        record = first[:active] + step
        values[record] = at[:active]
        at = run(lanes, at[:active], record)
        finished = counts_left[:active] == step + 1
        if (at[finished] != ends[:active][finished]).any():
            raise ValueError("the records do not end where their block ends")
    return values


def _decode_rest(run: Step, skip: Skip, lanes: Lanes, rest: tuple[I64, I64, I64, I64], ends: I64) -> None:
    """Decode the rest of each lane. `rest` has, for each lane, the position, the number of the next record,
    the records left and the end.
    """
    places, numbers, after = [], [], []
    data = memoryview(lanes.data)  # type: ignore[arg-type]
    for at, record, rests, end in zip(*(part.tolist() for part in rest), strict=False):
        for number in range(record, record + rests):
            places.append(at)
            numbers.append(number)
            at = skip(data, at)
            after.append(at)
        if at != end:
            raise ValueError("the records do not end where their block ends")
    record = np.array(numbers, np.int64)
    ends[record] = places
    if (run(lanes, np.array(places, np.int64), record) != np.array(after, np.int64)).any():
        raise ValueError("the two decoders disagree about where a record ends")


def _check_wanted(node: AvroNode, name: str, out: LaneOutput) -> None:
    """Raise an error for a wanted field of another type, which would leave its output unwritten."""
    is_long = isinstance(node, AvroPrimitive) and node.kind in ("int", "long", "enum")
    is_bytes = isinstance(node, AvroPrimitive) and node.kind in ("bytes", "string")
    is_optional = isinstance(node, AvroUnion)
    if (
        (name in out.longs and not (is_long or is_optional))
        or (name in out.starts and not is_bytes)
        or (name in out.sparse and not (is_bytes or is_optional or isinstance(node, AvroArray)))
        or (name in out.arrays and not (is_optional or isinstance(node, AvroArray)))
    ):
        raise ValueError(f"{name} has another type than the format requires")


def _must_be(inner: AvroNode, name: str, out: LaneOutput) -> bool:
    """Return whether a field is never null: records (which writers before 0.9 made optional) and required
    fields are not.
    """
    return isinstance(inner, AvroRecord) or name in out.required


# --- integers


def _varint(lanes: Lanes, at: I64) -> tuple[U64, I64]:
    """Return varints without undoing the zigzag, and the positions after them."""
    word = lanes.words[at]
    bits = int(np.bitwise_or.reduce(word))
    if not bits & 0x80:
        return word & np.uint64(0x7F), at + 1
    if not bits & 0x8000:
        two = (word >> np.uint64(7)) & _ONE
        raw = (word & np.uint64(0x7F)) | (((word >> _ONE) & np.uint64(0x3F80)) * two)
        return raw, at + 1 + two.view(np.int64)
    stop = ~word & _CONTINUES
    if not stop.all():
        return _long_varint(lanes, at)
    mask = (stop - _ONE) & ~stop
    return _fold(word & mask & _PAYLOAD, mask), at + (np.bitwise_count(mask) >> 3) + 1


def _fold(raw: U64, mask: U64) -> U64:
    """Close the gaps between groups of seven bits."""
    folds = _FOLDS if int(np.bitwise_or.reduce(mask)) >> 32 else _FOLDS[:2]
    for low, high, shift in folds:
        raw = (raw & low) | ((raw & high) >> shift)
    return raw


def _long_varint(lanes: Lanes, at: I64) -> tuple[U64, I64]:
    """Return varints of which some have nine or ten bytes, and the positions after them."""
    word = lanes.words[at]
    stop = ~word & _CONTINUES
    mask = np.where(stop == 0, ~np.uint64(0), (stop - _ONE) & ~stop)
    raw = _fold(word & mask & _PAYLOAD, mask)
    size = (np.bitwise_count(mask) >> 3).astype(np.int64) + 1
    wide = np.flatnonzero(stop == 0)
    ninth = lanes.data[at[wide] + 8].astype(np.uint64)
    tenth = lanes.data[at[wide] + 9].astype(np.uint64) * (ninth >> np.uint64(7))
    if (tenth > _ONE).any():
        raise ValueError("an integer has more than 64 bits")
    raw[wide] |= ((ninth & np.uint64(0x7F)) << np.uint64(56)) | (tenth << np.uint64(63))
    size[wide] = 9 + (ninth >> np.uint64(7)).view(np.int64)
    return raw, at + size


def _store_long(name: str) -> Step:
    def run(lanes: Lanes, at: I64, record: I64) -> I64:
        raw, at = _varint(lanes, at)
        value = (raw >> _ONE).view(np.int64)
        if int(np.bitwise_or.reduce(raw)) & _LOW_BIT:
            value ^= -(raw & _ONE).view(np.int64)
        lanes.out.longs[name][record] = value
        return at

    return run


def _skip_long(lanes: Lanes, at: I64, record: I64) -> I64:
    word = lanes.words[at]
    if not int(np.bitwise_or.reduce(word)) & 0x80:
        return at + 1
    stop = ~word & _CONTINUES
    if not stop.all():
        return _long_varint(lanes, at)[1]
    end: I64 = at + (np.bitwise_count((stop - _ONE) & ~stop) >> 3) + 1
    return end


# --- bytes and fixed sizes


def _lengths(raw: U64) -> I64:
    bits = int(np.bitwise_or.reduce(raw))
    if bits & _LOW_BIT or bits >> _MAX_LENGTH_BITS:
        raise ValueError("a length is impossible")
    return (raw >> _ONE).view(np.int64)


def _bytes_step(name: str, out: LaneOutput) -> Step:
    if name in out.starts:
        return _store_bytes(name)
    if name in out.sparse:
        return _collect_bytes(name)
    return _skip_bytes


def _store_bytes(name: str) -> Step:
    def run(lanes: Lanes, at: I64, record: I64) -> I64:
        raw, at = _varint(lanes, at)
        length = _lengths(raw)
        lanes.out.starts[name][record] = at
        lanes.out.lengths[name][record] = length
        return at + length

    return run


def _collect_bytes(name: str) -> Step:
    def run(lanes: Lanes, at: I64, record: I64) -> I64:
        raw, at = _varint(lanes, at)
        length = _lengths(raw)
        lanes.out.sparse[name].append((record, at, length))
        return at + length

    return run


def _skip_bytes(lanes: Lanes, at: I64, record: I64) -> I64:
    raw, at = _varint(lanes, at)
    return at + _lengths(raw)


def _skip_fixed(size: int) -> Step:
    return lambda lanes, at, record: at + size


# --- optional values and arrays


def _optional(inner: Step, present: int, *, required: bool) -> Step:
    """Return the step of an optional value. `present` is the byte of the branch that is not null; the other
    is 2 - `present`.
    """

    def run(lanes: Lanes, at: I64, record: I64) -> I64:
        branch = lanes.data[at]
        bits = int(np.bitwise_or.reduce(branch))
        if bits & ~2:
            raise ValueError("the branch of a union is impossible")
        some = branch == present
        count = int(np.count_nonzero(some))
        at = at + 1
        if count == len(at):
            return inner(lanes, at, record)
        if required:
            raise ValueError("a required value is null")
        if count:
            inside = np.flatnonzero(some)
            at[inside] = inner(lanes, at[inside], record[inside])
        return at

    return run


def _array_step(items: AvroNode, name: str, out: LaneOutput) -> Step:
    element = _compile(items, name + "[]", out)
    if items in (
        AvroUnion((AvroPrimitive("null"), AvroPrimitive("long"))),
        AvroUnion((AvroPrimitive("null"), AvroPrimitive("int"))),
    ):
        element = _skip_present_long(element)
    sparse, every = out.sparse.get(name), out.arrays.get(name)

    def run(lanes: Lanes, at: I64, record: I64) -> I64:
        start = at
        at = skip(lanes, at, record)
        if every is not None:
            every.append((record, start, at - start))
        return at

    def skip(lanes: Lanes, at: I64, record: I64) -> I64:
        start = at
        raw, at = _varint(lanes, at)
        bits = int(np.bitwise_or.reduce(raw))
        if bits == 0:
            return at
        if bits & _LOW_BIT:
            raise ValueError("an array is stored in blocks with sizes")
        count = (raw >> _ONE).view(np.int64)
        inside = np.flatnonzero(count)
        at[inside] = _elements(element, lanes, at[inside], record[inside], count[inside])
        if sparse is not None:
            sparse.append((record[inside], start[inside], at[inside] - start[inside]))
        return at

    return run


def _elements(element: Step, lanes: Lanes, at: I64, record: I64, count: I64) -> I64:
    most = int(count.max())
    if most > _MAX_ITEMS:
        raise ValueError(f"an array has {most} items, more than {_MAX_ITEMS}")
    for step in range(most):
        if step < int(count.min()):
            at = element(lanes, at, record)
            continue
        open_lanes = np.flatnonzero(count > step)
        at[open_lanes] = element(lanes, at[open_lanes], record[open_lanes])
    if lanes.data[at].any():
        raise ValueError("an array is stored in several blocks")
    return at + 1


def _skip_present_long(general: Step) -> Step:
    """Return a step that skips optional integers that are present and take at most seven bytes, as null
    counts do; for others it calls `general`.
    """

    def run(lanes: Lanes, at: I64, record: I64) -> I64:
        word = lanes.words[at]
        if not (word.astype(np.uint8) == 2).all():
            return general(lanes, at, record)
        if not int(np.bitwise_or.reduce(word)) & 0x8000:
            return at + 2
        stop = ~word & _CONTINUES_AFTER_FIRST
        if not stop.all():
            return general(lanes, at, record)
        end: I64 = at + (np.bitwise_count((stop - _ONE) & ~stop) >> 3) + 1
        return end

    return run


def optional_longs(lanes: Lanes, name: str, count: int) -> I64:
    """Return arrays of optional integers that were found in `out.sparse[name]`, one per row; -1 where there
    is none.

    `count` is the number of records.
    """
    values = lanes.out.sparse[name]
    heads = [_varint(lanes, start) for _, start, _ in values]
    width = max((int(raw.max()) >> 1 for raw, _ in heads), default=0)
    out = np.full((count, width), -1, np.int64)
    for (record, _, _), (raw, at) in zip(values, heads, strict=True):
        items = (raw >> _ONE).view(np.int64)
        for index in range(width):
            inside = np.flatnonzero(items > index)
            some = inside[lanes.data[at[inside]] == 2]
            at[inside] += 1
            value, at[some] = _varint(lanes, at[some]) if len(some) else (raw[:0], at[some])
            out[record[some], index] = (value >> _ONE).view(np.int64)
    return out
