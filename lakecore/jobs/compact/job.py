"""This module defines the request to compact one table, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from lakecore.compact.engine.work import Strategy
from lakecore.errors import InvalidInputError
from lakecore.row.sort_rule import OrderStrategy
from lakecore.verify.digest.shape import ProofMode

__all__ = ["Job"]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A request to compact one table."""

    table: str
    strategy: Strategy = Strategy.UNIVERSAL
    order_strategy: OrderStrategy = OrderStrategy.NONE
    """Sort the rows of an append table without buckets in this order. All of its files are rewritten,
    whatever `strategy` and `proof` say, and all columns are compared.
    """
    order_by: tuple[str, ...] = ()
    """The columns to sort by; if it is empty, those of option `clustering.columns`."""
    force: bool = False
    """Also sort what an earlier run has put in this order and nobody has changed since."""
    where: str | None = None
    """The partitions as `dt=a,hh=b;dt=c`; None means all."""
    buckets: str | None = None
    """The buckets of a table with a fixed number of them, as `0-99,200`; None means all."""
    partition_idle_ms: int | None = None
    """The time in milliseconds for which a partition must have no new file to be compacted."""
    zone: str = "UTC"
    """The time zone of the clock that file times were written by."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The table options for this run only."""
    dry_run: bool = False
    until_ms: int | None = None
    """In milliseconds since the epoch; what is proven by then is committed, the rest reported."""
    commit_user: str = ""
    """(`commit_user`, `commit_identifier`) names the run, so that a repeated one is recognised; its commits
    take the identifiers from there on (up to 1000). An empty user means a fresh one.
    """
    commit_identifier: int = 1
    proof: ProofMode = ProofMode.SAMPLED
    proof_seed: str = ""
    """Chooses the rows that a sampled proof compares whole. If it is empty, a fresh seed is chosen, which the
    report names.
    """
    lease_ms: int = 0
    """Hold the table's lease while there is work; this is how long it outlives this process if it is killed.
    0 takes no lease.
    """
    wait_ms: int = 0
    """How long to wait while another chore holds the lease."""
    owner: str = ""
    """The owner of the lease, who takes it over at once; empty means the name of the run."""

    def to_json(self) -> dict[str, Any]:
        """Convert the job to plain values."""
        raw = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {"options": dict(self.options), "order_by": list(self.order_by)}
        enums = {name: raw[name].value for name in ("strategy", "proof", "order_strategy")}
        return raw | plain | enums

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Job:
        """Parse a job. Raises InvalidInputError for unknown or missing keys and values."""
        try:
            kinds = {
                "strategy": Strategy,
                "proof": ProofMode,
                "order_strategy": OrderStrategy,
                "order_by": tuple,
            }
            typed = {name: kind(raw[name]) for name, kind in kinds.items() if name in raw}
            return cls(**{**raw, **typed})
        except (TypeError, ValueError) as err:
            raise InvalidInputError(f"not a compaction job: {err}") from err
