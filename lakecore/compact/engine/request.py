"""This module defines the request for a compaction or a clustering."""

from __future__ import annotations

from dataclasses import dataclass

from lakecore.compact.engine.work import Strategy
from lakecore.metadata.snapshot import BATCH_IDENTIFIER
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.verify.digest.shape import ProofMode

__all__ = ["CompactRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """What to compact, how to prove it, and who commits. `until_ms`: since the epoch.

    (`commit_user`, `identifier`) names the run: a second one with the same name goes on where the first
    stopped. Its commits take the identifiers from `identifier` on. `repeatable`: False for a fresh user.
    `proof_seed`: chooses the rows that a sampled proof compares whole; empty: a fresh one.
    """

    strategy: Strategy
    commit_user: str
    identifier: int
    where: ScanFilter = EVERYTHING
    proof: ProofMode = ProofMode.SAMPLED
    proof_seed: str = ""
    until_ms: int | None = None
    repeatable: bool = True

    @property
    def named(self) -> bool:
        """Return whether another run of the same name may have existed, and can be distinguished from
        others.
        """
        return self.repeatable and self.identifier != BATCH_IDENTIFIER
