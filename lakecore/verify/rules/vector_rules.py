"""This module checks whether a merge uses the deleted rows of all files that it reads. Pure.

Merge and proof read the rows of a file without those that its deletion vector names. A vector that the plan
lacked would bring deleted rows back on both sides of the comparison, so the vectors are found anew, from the
index files of the bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakecore.errors import ProofError
from lakecore.metadata.manifest.index_file import DELETION_VECTORS, DeletionFile, IndexFile

__all__ = ["check_planned_vectors"]


def check_planned_vectors(
    unit: str, files: Iterable[str], claimed: Mapping[str, DeletionFile], live: Iterable[IndexFile]
) -> None:
    """Check the vectors that the planner used. `files` are the names of the data files that are read;
    `claimed` are their vectors as the planner has them; `live` are the index files of their bucket.

    Raises ProofError naming a file whose vector is another one, or missing.
    """
    vectors = {
        vector.data_file: (file.file_name, vector.offset, vector.length)
        for file in live
        if file.index_type == DELETION_VECTORS
        for vector in file.deletions
    }
    for name in files:
        planned = claimed.get(name)
        place = None if planned is None else _place(planned)
        if place != vectors.get(name):
            raise ProofError(
                unit,
                f"the deletion vector of {name} is {_text(vectors.get(name))}, "
                f"but the plan has {_text(place)}",
            )


def _place(vector: DeletionFile) -> tuple[str, int, int]:
    return vector.path.rpartition("/")[2], vector.place.offset, vector.place.length


def _text(place: tuple[str, int, int] | None) -> str:
    return "none" if place is None else f"at {place[1]} of {place[0]}"
