"""This module reads maps whose keys may be null in the schema of a parquet file, as Paimon before 0.9
wrote them.

pyarrow refuses them. Without its annotation such a map is read as what it is: a group with a list of pairs.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakecore.format.parquet.thrift_compact import Struct

__all__ = ["pairs_of", "without_nullable_key_maps"]

# ids of parquet.thrift: SchemaElement
_REPETITION, _CONVERTED, _LOGICAL = 3, 6, 10
_OPTIONAL, _MAP, _MAP_KEY_VALUE = 1, 1, 2


def without_nullable_key_maps(elements: list[Struct]) -> bool:
    """Take the annotation from maps with nullable keys, in place. `elements`: the schema of a footer."""
    nullable = False
    for group, entry, key in zip(elements, elements[1:], elements[2:], strict=False):
        if _is(group, _MAP) and key.get(_REPETITION) is not None and key[_REPETITION].value == _OPTIONAL:
            for element in (group, entry):
                element.pop(_CONVERTED, None)
                element.pop(_LOGICAL, None)
            nullable = True
    return nullable


def _is(element: Struct, converted: int) -> bool:
    return _CONVERTED in element and element[_CONVERTED].value in (converted, _MAP_KEY_VALUE)


def pairs_of(array: pa.Array) -> Any | None:
    """Return the lists of pairs of a map that was read as a group, null where the map is null; None if it is
    no such group.
    """
    data_type = array.type
    if (
        not pa.types.is_struct(data_type)
        or data_type.num_fields != 1
        or not pa.types.is_list(data_type.field(0).type)
    ):
        return None
    return array.flatten()[0]
