"""Serialised sets that aggregate functions unite: bitmaps and sketches, from few numbers and from many."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable
from contextlib import suppress

from datasketches import hll_sketch, hll_union, tgt_hll_type, update_theta_sketch
from pyroaring import BitMap

from lakecore.errors import CorruptDataError
from lakecore.row.roaring.bitmap64 import numbers_of
from tests.support.bitmaps64 import bitmap64

__all__ = ["SETS", "meaning", "pool"]

_KEYS = (range(4), range(-20, 20), range(0, 1 << 40, 1 << 34), range(300), range(1 << 20, 1 << 31, 1 << 28))


@functools.cache
def pool(name: str, size: int = 5000) -> tuple[str, ...]:
    """Values of an aggregate function as JSON spells bytes, of up to about `size` numbers."""
    dice = random.Random(name)
    return tuple("0x" + SETS[name](dice, size).hex() for _ in range(16))


def meaning(value: bytes) -> object:
    """What a value of any of the functions stands for, whatever the order in which it was united; else itself."""
    if value[:1] == b"\1" and len(value) > 40:
        with suppress(CorruptDataError):
            return tuple(numbers_of(value, "").tolist())
    if value[1:3] != b"\1\7" or value[0] not in (2, 3, 10):
        return value
    union = hll_union(value[3])
    union.update(hll_sketch.deserialize(value))
    plain = bytes(union.get_result(tgt_hll_type.HLL_8).serialize_compact())
    if plain[0] == 10:
        return value[3], plain[40:]
    start = 4 * plain[0]
    return value[3], frozenset(plain[i : i + 4] for i in range(start, len(plain), 4))


def _numbers(dice: random.Random, size: int) -> Iterable[int]:
    start = dice.randrange(1 << 17)
    return dice.choice(
        [range(start, start + size), range(start, start + 2 * size, 2), [start, start + 70_000]]
    )


def _bitmap32(dice: random.Random, size: int) -> bytes:
    return bytes(BitMap(_numbers(dice, size)).serialize())


def _bitmap64(dice: random.Random, size: int) -> bytes:
    """Few keys and many, so that nodes of the tree grow; positive and negative numbers."""
    keys = dice.choice(_KEYS)
    chosen = dice.sample(keys, dice.randrange(1, min(len(keys), 60 if size > 1000 else 6) + 1))
    step = dice.choice([7, 900])
    return bitmap64({(key, low % 65536) for key in chosen for low in [*_numbers(dice, size)][::step]})


def _hll(dice: random.Random, size: int) -> bytes:
    kind = dice.choice([tgt_hll_type.HLL_4, tgt_hll_type.HLL_6, tgt_hll_type.HLL_8])
    sketch = hll_sketch(12 if size > 1000 else 7, kind)
    for number in _numbers(dice, dice.choice([size, 5])):
        sketch.update(number)
    return bytes(dice.choice([sketch.serialize_compact, sketch.serialize_updatable])())


def _theta(dice: random.Random, size: int) -> bytes:
    sketch = update_theta_sketch(dice.choice([8, 12, 13] if size > 1000 else [5]))
    for number in _numbers(dice, dice.choice([size, 5])):
        sketch.update(number)
    return bytes(sketch.compact(dice.choice([True, False])).serialize())


SETS: dict[str, Callable[[random.Random, int], bytes]] = {
    "rbm32": _bitmap32,
    "rbm64": _bitmap64,
    "hll_sketch": _hll,
    "theta_sketch": _theta,
}
