"""This module reads the dictionaries of the variants of a batch: which keys they have, in an order that
all of them share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.row.variant import key_names
from lakecore.row.variant_bytes import Ints

__all__ = ["VariantDictionaries"]


@dataclass(frozen=True, slots=True)
class VariantDictionaries:
    """These are the distinct dictionaries. `names` has ids by key, `ranks` the places of all keys in the
    order of keys, `starts` the beginning of those of each dictionary; `broken` are those that are no
    dictionary, or have a key twice.
    """

    names: tuple[Mapping[str, int], ...]
    ranks: Ints
    starts: Ints
    counts: Ints
    broken: Ints
    rank_of: Mapping[str, int]

    @classmethod
    def of(cls, metadata: pa.Array, more: Iterable[str] = ()) -> tuple[VariantDictionaries, Ints]:
        """Return the dictionaries and the number of each row's dictionary. `more` are keys that get places
        too. It costs Python time for each distinct dictionary.
        """
        coded = metadata.fill_null(b"").dictionary_encode()
        lists: list[list[str]] = []
        broken = []
        for text in coded.dictionary.to_pylist():
            try:
                names = key_names(text)
            except (ValueError, IndexError):
                names = [""] * 2
            broken.append(len(set(names)) != len(names))
            lists.append([] if broken[-1] else names)
        every = {name for names in lists for name in names} | set(more)
        rank_of = {name: rank for rank, name in enumerate(sorted(every))}
        ranks = np.array([rank_of[name] for names in lists for name in names], np.int64)
        counts = np.array([len(names) for names in lists], np.int64)
        ids = tuple({name: number for number, name in enumerate(names)} for names in lists)
        keys = cls(ids, ranks, np.cumsum(counts) - counts, counts, np.array(broken, bool), rank_of)
        return keys, coded.indices.to_numpy().astype(np.int64)

    def of_fields(self, dictionary: Ints, ids: Ints) -> Ints:
        """Return the places of keys; -1 if there is no such key."""
        is_inside = ids < self.counts[dictionary]
        places = np.full(len(ids), -1, np.int64)
        places[is_inside] = self.ranks[(self.starts[dictionary] + ids)[is_inside]]
        return places

    def ids(self, name: str) -> Ints:
        """Return the id of a key in each dictionary; -1 if it has none."""
        return np.array([names.get(name, -1) for names in self.names], np.int64)
