"""This module defines what a merge that makes new rows shows of a window, and what a certified merge reports.
It has values only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakecore.data_class import dataclass
from lakecore.errors import ProofError
from lakecore.verify.digest.digest import ZERO, Tally
from lakecore.verify.rules.order import Bools, KeyValues

__all__ = ["Fate", "FoldedWindow", "MergeEvidence", "join_folds", "join_passes"]


class Fate(IntEnum):
    """The fate of a row tells what a merge did with it.

    FOLDED: it has part in its key's result. IGNORED: a retract that option `ignore-delete` leaves out.
    EXPIRED: older than `record-level.expire-time`. SUPERSEDED: the same key has a row on a lower level above
    0, which stands for all levels from its own on (lookup merges).
    """

    FOLDED = 0
    IGNORED = 1
    EXPIRED = 2
    SUPERSEDED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedWindow:
    """A window that was folded: it has all rows in merge order, and the results of its keys.

    Columns of both batches are found by name, in the types of the table: key columns (`_KEY_` or values),
    sequence fields, the column of record-level expiry, `_SEQUENCE_NUMBER`, `_VALUE_KIND`; in the full mode
    all columns. `fates`: a `Fate` a row, None for all folded. `levels`: the level of each row, needed with
    SUPERSEDED and for change lines. `outside`: rows that were looked up and are in no input of the pick.
    `groups`: for each result, the place of its key among the keys of the window, strictly increasing.
    `unchanged`: keys whose replacement by an equal row is not announced (`row-deduplicate`).
    """

    rows: pa.RecordBatch
    results: pa.RecordBatch
    groups: npt.NDArray[np.int64]
    fates: npt.NDArray[np.int8] | None = None
    levels: npt.NDArray[Any] | None = None
    outside: Bools | None = None
    unchanged: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeEvidence:
    """A certified merge says that it did this. It pickles; `join_folds` adds up units in key order.

    `folded`, `ignored`, `expired`, `superseded`: rows by their fate. `outside`: those of them looked up.
    `results`: what the outputs must hold; `changes`: what the changelog must hold. `key_hashes`: hashes of
    the keys (8 bytes each, full mode) that had to be looked up: they have a row of level 0, and none above it
    in the pick. `keys`: keys met; `vanished`: those without a result. `ties`: neighbours equal in key and
    order. `not_recomputed`: columns whose values were taken from the merge, not recomputed (full mode). Keys
    are None without rows.
    """

    folded: Tally = ZERO
    ignored: Tally = ZERO
    expired: Tally = ZERO
    superseded: Tally = ZERO
    outside: Tally = ZERO
    results: Tally = ZERO
    changes: Tally = ZERO
    key_hashes: bytes = b""
    keys: int = 0
    vanished: int = 0
    ties: int = 0
    not_recomputed: frozenset[str] = frozenset()
    first_key: KeyValues | None = None
    last_key: KeyValues | None = None

    def __add__(self, other: MergeEvidence) -> MergeEvidence:
        """Return counts and digests of both, wherever their keys are."""
        return MergeEvidence(
            folded=self.folded + other.folded,
            ignored=self.ignored + other.ignored,
            expired=self.expired + other.expired,
            superseded=self.superseded + other.superseded,
            outside=self.outside + other.outside,
            results=self.results + other.results,
            changes=self.changes + other.changes,
            key_hashes=self.key_hashes + other.key_hashes,
            keys=self.keys + other.keys,
            vanished=self.vanished + other.vanished,
            ties=self.ties + other.ties,
            not_recomputed=self.not_recomputed | other.not_recomputed,
        )

    @property
    def inputs(self) -> Tally:
        """Return what the inputs of the pick must add up to."""
        return self.folded + self.ignored + self.expired + self.superseded - self.outside


def join_folds(unit: str, parts: Iterable[MergeEvidence]) -> MergeEvidence:
    """Return the evidence of parts that follow each other in key order. Raises ProofError when they do
    not.
    """
    whole = MergeEvidence()
    for part in parts:
        if whole.last_key is not None and part.first_key is not None and part.first_key <= whole.last_key:
            raise ProofError(
                unit, f"rows are out of order: key {part.first_key} comes after key {whole.last_key}"
            )
        whole = replace(
            whole + part,
            first_key=part.first_key if whole.first_key is None else whole.first_key,
            last_key=whole.last_key if part.last_key is None else part.last_key,
        )
    return whole


def join_passes(inner: Iterable[MergeEvidence], last: MergeEvidence) -> MergeEvidence:
    """Return the account of a merge in passes: results of an earlier pass are rows of a later one.

    Passes that only order rows need no account at all.
    """
    for part in inner:
        last = replace(
            last,
            folded=last.folded + part.folded - part.results,
            ignored=last.ignored + part.ignored,
            expired=last.expired + part.expired,
            superseded=last.superseded + part.superseded,
            outside=last.outside + part.outside,
            ties=last.ties + part.ties,
            not_recomputed=last.not_recomputed | part.not_recomputed,
        )
    return last
