"""This module gathers the different values of a column, and which rows hold them, batch by batch."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.index.values import stored_numbers, stored_texts, width_of
from lakecore.types.datatypes import AtomicType

__all__ = ["DistinctValues", "ValueLog"]

Codes: TypeAlias = npt.NDArray[np.int64]

_NULL = -1


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """These are the different values of a column in order, as numbers (numpy) or large binary (Arrow).
    `codes` has, per row, the index of its value, -1 for null.
    """

    values: Any
    codes: Codes

    def __len__(self) -> int:
        return len(self.values)


class ValueLog:
    """It logs the values of a column. It needs memory for the different values of each batch, and 2 to 4
    bytes per row.
    """

    def __init__(self, data_type: AtomicType) -> None:
        self._kind = data_type
        self._values: list[Any] = []
        self._codes: list[npt.NDArray[Any]] = []

    def add(self, array: pa.Array) -> None:
        values, codes = self._texts(array) if width_of(self._kind) is None else self._numbers(array)
        self._values.append(values)
        self._codes.append(codes.astype(np.int16 if len(values) < 1 << 15 else np.int32))

    def distinct(self) -> DistinctValues:
        """Return the different values of all batches. It needs 8 more bytes of memory per row."""
        if width_of(self._kind) is None:
            values, ranks = _ranked_texts(self._values)
        else:
            values, ranks = _ranked_numbers(self._values)
        codes = []
        at = 0
        for part, own in zip(self._values, self._codes, strict=True):
            rank = np.append(ranks[at : at + len(part)], _NULL)  # code -1 picks the last
            codes.append(rank[own.astype(np.int64)])
            at += len(part)
        return DistinctValues(values, np.concatenate(codes) if codes else np.zeros(0, np.int64))

    def _numbers(self, array: pa.Array) -> tuple[Any, npt.NDArray[Any]]:
        numbers, valid = stored_numbers(array, self._kind)
        if valid is None:
            values, codes = np.unique(numbers, return_inverse=True)
            return values, codes
        values, inverse = np.unique(numbers[valid], return_inverse=True)
        codes = np.full(len(numbers), _NULL, np.int64)
        codes[valid] = inverse
        return values, codes

    def _texts(self, array: pa.Array) -> tuple[Any, npt.NDArray[Any]]:
        encoded = stored_texts(array, self._kind).dictionary_encode()
        return encoded.dictionary, pc.fill_null(encoded.indices, _NULL).to_numpy(zero_copy_only=False)


def _ranked_numbers(parts: list[Any]) -> tuple[Any, Codes]:
    """Return the values of all parts in order, and for each value of each part its position there."""
    if len(parts) == 1:
        return parts[0], np.arange(len(parts[0]))
    joined = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    values, ranks = np.unique(joined, return_inverse=True)
    return values, ranks.astype(np.int64)


def _ranked_texts(parts: list[Any]) -> tuple[Any, Codes]:
    if len(parts) == 1:
        return _sorted_texts(parts[0])
    joined = pa.concat_arrays(parts) if parts else pa.array([], pa.large_binary())
    encoded = joined.dictionary_encode()
    values, rank = _sorted_texts(encoded.dictionary)
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    return values, rank[indices] if len(rank) else indices.astype(np.int64)


def _sorted_texts(values: pa.Array) -> tuple[pa.Array, Codes]:
    """Return the different values in order, and the position of each value there."""
    order = pc.array_sort_indices(values).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return values.take(pa.array(order)), rank
