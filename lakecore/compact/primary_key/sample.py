"""Looking into files for keys to cut at: footers and page indexes only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakecore.compact.primary_key.cut import boundaries
from lakecore.metadata.data_file import DataFile
from lakecore.read.context import ReadContext
from lakecore.read.key_range import cut_points

__all__ = ["sample_cuts"]

_BLIND_SHARE = 0.05


def sample_cuts(
    reading: ReadContext, bucket_dir: str, files: Sequence[DataFile], count: int
) -> tuple[tuple[Any, ...], ...]:
    """Keys that cut `files` into `count` shares of about equal bytes; fewer or none where that cannot be.

    Files without page index are decoded from their start by every unit: with more than a few of them a cut
    costs more than it gains, and there is none. Cost: two small reads a file.
    """
    points: list[tuple[tuple[Any, ...], float]] = []
    blind = 0
    for file in files:
        found = cut_points(reading, bucket_dir, file)
        if found is None:
            blind += file.file_size
        else:
            row_bytes = file.file_size / max(file.row_count, 1)
            points += [(key, rows * row_bytes) for key, rows in found]
    if blind > _BLIND_SHARE * sum(file.file_size for file in files):
        return ()
    return boundaries(points, count)
