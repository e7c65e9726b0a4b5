"""This module has the limits at which the removal of orphans must stop. It is pure."""

from __future__ import annotations

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, UnsupportedError

__all__ = ["OrphanCounts", "OrphanLimits"]


@dataclass(frozen=True, slots=True)
class OrphanCounts:
    """These are the counts of a walk over the table: all files, and the orphans among them that are old
    enough.
    """

    files: int
    size: int
    orphans: int
    orphan_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanLimits:
    """`older_than_ms`: younger files may belong to a writer that has not committed yet.

    More than `max_share` of all files or bytes is taken for a mistake, unless it is `few` files at most.
    `allow_empty`: a table without any snapshot, tag or changelog is not taken for one.
    """

    older_than_ms: int
    max_share: float = 0.5
    few: int = 1000
    allow_empty: bool = False

    def check_time(self, now_ms: int) -> None:
        """Raise InvalidInputError for a time in the future."""
        if self.older_than_ms >= now_ms:
            raise InvalidInputError(
                "older-than must be in the past, because no snapshot refers to files that are "
                "still being written"
            )
        if not 0 < self.max_share <= 1:
            raise InvalidInputError(f"max-share {self.max_share}: must be above 0 and at most 1")

    def check_roots(self, table: str, roots: int) -> None:
        """Raise UnsupportedError when nothing would be needed."""
        if not roots and not self.allow_empty:
            raise UnsupportedError(
                f"{table} has no snapshot, tag or changelog, so all of its files would be orphans "
                "and nothing is removed; run fsck, drop the table, or allow it with --allow-empty"
            )

    def check_share(self, table: str, counts: OrphanCounts) -> None:
        """Raise UnsupportedError when too much would be removed."""
        if counts.orphans <= self.few:
            return
        for what, part, whole in (
            ("files", counts.orphans, counts.files),
            ("bytes", counts.orphan_size, counts.size),
        ):
            if whole and part / whole > self.max_share:
                raise UnsupportedError(
                    f"{table}: {part} of {whole} {what} would be removed, more than the limit of "
                    f"{self.max_share:.0%}, so nothing is removed; look at a dry run, then raise "
                    "--max-share"
                )
