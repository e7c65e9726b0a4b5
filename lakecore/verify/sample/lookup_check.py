"""This module compares the rows that a merge looked up with those that the keys of a window have on other
levels. It is pure.

A row that was not looked up is not marked as deleted: it stays beside the row that replaces it. A row that
was looked up without need is lost. Neither shows in the result of its key where simply the latest row counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyroaring import BitMap

from lakecore.errors import ProofError
from lakecore.verify.digest.shape import RowShape
from lakecore.verify.rules.order import key_at
from lakecore.verify.sample.window_read import SearchedFile, key_names

__all__ = ["check_found"]


def check_found(
    unit: str, searched: Iterable[SearchedFile], looked_up: Mapping[str, BitMap], shape: RowShape
) -> None:
    """Check looked-up rows. `searched` are the files of other levels in one window; `looked_up` are the
    positions, by file, that the merge names.

    Raises ProofError naming a key and a file where the merge looked up other rows of the window than the
    search found. A row of the window that was deleted before may not be named either.
    """
    for one in searched:
        positions = one.rows.positions
        if not len(positions):
            continue
        name = one.file.stored.file.file_name
        window = BitMap(range(int(positions[0]), int(positions[-1]) + 1))
        rows = looked_up.get(name, BitMap()) & window
        due = BitMap(positions[one.hits].tolist())
        if missing := due - rows:
            _refuse(unit, one, missing.min(), shape, "is replaced, but its merge did not look it up")
        if strange := rows - due:
            _refuse(unit, one, strange.min(), shape, "was looked up, but no row of its key replaces it")


def _refuse(unit: str, one: SearchedFile, position: int, shape: RowShape, problem: str) -> None:
    places = one.rows.positions.tolist()
    at = f"the row at {position} of {one.file.stored.path}"
    if position in places:
        keys = [one.rows.batch.column(name) for name in key_names(shape)]
        at += f", of key {key_at(keys, places.index(position))},"
    raise ProofError(unit, f"{at} {problem} (sample of seed {shape.seed})")
