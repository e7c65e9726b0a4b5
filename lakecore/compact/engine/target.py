"""This module has the table that a run rewrites files of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

import numpy as np

from lakecore.clock import Clock
from lakecore.commit.committer import Committer
from lakecore.compact.engine.work import UnitTable
from lakecore.data_class import dataclass
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.read.context import ReadContext
from lakecore.scan.scanner import Scanner
from lakecore.store.table_stores import TableStores
from lakecore.verify.digest.shape import ProofMode, shape_of

__all__ = ["RewriteTarget"]


@dataclass(frozen=True)
class RewriteTarget:
    """This is a table as a run needs it."""

    name: str
    """This is the table's name, for messages and reports."""
    stores: TableStores
    """The schema contains the options of the job."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Commits obey these options before those of the table's latest schema."""

    @cached_property
    def reading(self) -> ReadContext:
        """Return how its files are read."""
        stores = self.stores
        return ReadContext(stores.file_io, stores.paths, stores.schema, stores.schemas)

    @cached_property
    def scanner(self) -> Scanner:
        """Return what reads its manifests."""
        return Scanner(self.name, self.stores)

    @cached_property
    def committer(self) -> Committer:
        """Return what publishes the commits of the run."""
        return Committer(self.stores, self.overrides)

    @property
    def clock(self) -> Clock:
        return self.stores.clock

    def unit_table(
        self, entries: ManifestEntries, proof: ProofMode, seed: str = "", *, whole: bool = False
    ) -> UnitTable:
        """Return what units know about the table: its schema, those of `entries`, and how their rows are
        proven.

        `seed` chooses the rows of sampled proofs. `whole`: the units cannot sample their rows.
        """
        mode = ProofMode.FULL if whole and proof is ProofMode.SAMPLED else proof
        reading = self.reading
        schema_ids = (int(schema_id) for schema_id in np.unique(entries.schema_id))
        ids = {schema_id for schema_id in schema_ids if schema_id <= reading.schema.id}
        schemas = {schema_id: reading.file_schema(schema_id) for schema_id in ids | {reading.schema.id}}
        older = [schema for schema_id, schema in schemas.items() if schema_id != reading.schema.id]
        shape = shape_of(reading.schema, reading.options, mode, older, seed)
        return UnitTable(reading=reading, shape=shape, schemas=schemas, clock=self.clock)
