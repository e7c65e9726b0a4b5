"""This module defines the name of a run, and the request for a compaction or a clustering."""

from __future__ import annotations

from lakecore.compact.engine.work import Strategy
from lakecore.data_class import dataclass
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.metadata.manifest.bucket_counts import GROUP_FILES
from lakecore.metadata.snapshot import BATCH_IDENTIFIER
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.verify.digest.shape import ProofMode

__all__ = ["CompactRequest", "RunName"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunName:
    """The name says who commits what a run does, and until when it runs.

    (`commit_user`, `identifier`) names the run: a second one with the same name goes on where the first
    stopped. Its commits take the identifiers from `identifier` on.
    """

    commit_user: str
    identifier: int
    until_ms: int | None = None
    """The run ends then, in milliseconds since the epoch, and waits for no unit after it. None means no
    end.
    """
    repeatable: bool = True
    """It is False for a fresh user, of whom there is no earlier run."""

    @property
    def has_name(self) -> bool:
        """Return whether another run of the same name may have existed, and can be distinguished from
        others.
        """
        return self.repeatable and self.identifier != BATCH_IDENTIFIER


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """A request says what to compact, how to prove it, and who commits."""

    run: RunName
    strategy: Strategy
    where: ScanFilter = EVERYTHING
    proof: ProofMode = ProofMode.SAMPLED
    proof_seed: str = ""
    """It chooses the rows that a sampled proof compares whole; empty: a fresh one."""
    copy: CopyMode = CopyMode.LARGE
    """It tells what is copied without decoding."""
    group_files: int = GROUP_FILES
    """A table of more files is planned and run in groups of partitions of at most some so many."""
