"""A request to compact one table, as a value."""

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
    """A request to compact one table.

    `where`: partitions as `dt=a,hh=b;dt=c`, None for all. `buckets`: of a fixed number, as `0-99,200`.
    `partition_idle_ms`: only partitions without a new file for so long; `zone`: of the clock that file times
    were written by. `options`: table options for this run only.
    `until_ms`: since the epoch; what is proven by then is committed, the rest reported. (`commit_user`,
    `commit_identifier`) names the run, so that a repeated one is recognised; its commits take the
    identifiers from there on (up to 1000). An empty user means a fresh one.
    `order_strategy`, `order_by`: put the rows of an append table without buckets in this order; all of its
    files are rewritten, whatever `strategy` and `proof` say, and all columns compared. No columns: those of
    option `clustering.columns`.
    `proof_seed`: chooses the rows that a sampled proof compares whole; empty: a fresh one, which the report
    names. `force`: also put in order what an earlier run has put in this order, and nobody has touched since.
    `lease_ms`: hold the table's lease while there is work, so long that it outlives this process if that is
    killed; 0 takes none. `wait_ms`: how long to wait while another chore holds it. `owner`: who holds it, who
    takes it over at once; empty: the name of the run.
    """

    table: str
    strategy: Strategy = Strategy.UNIVERSAL
    order_strategy: OrderStrategy = OrderStrategy.NONE
    order_by: tuple[str, ...] = ()
    force: bool = False
    where: str | None = None
    buckets: str | None = None
    partition_idle_ms: int | None = None
    zone: str = "UTC"
    options: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    until_ms: int | None = None
    commit_user: str = ""
    commit_identifier: int = 1
    proof: ProofMode = ProofMode.SAMPLED
    proof_seed: str = ""
    lease_ms: int = 0
    wait_ms: int = 0
    owner: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        raw = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {"options": dict(self.options), "order_by": list(self.order_by)}
        enums = {name: raw[name].value for name in ("strategy", "proof", "order_strategy")}
        return raw | plain | enums

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Job:
        """Raises InvalidInputError for unknown or missing keys and values."""
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
