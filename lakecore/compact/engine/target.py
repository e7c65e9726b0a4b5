"""The table that a run rewrites files of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakecore.clock import Clock
from lakecore.commit.committer import Committer
from lakecore.compact.engine.work import UnitTable
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.read.context import ReadContext
from lakecore.scan.scanner import Scanner
from lakecore.verify.digest.shape import ProofMode, shape_of

__all__ = ["RewriteTarget"]


@dataclass(frozen=True, kw_only=True)
class RewriteTarget:
    """A table as a run needs it."""

    reading: ReadContext
    """How its files are read; the schema contains the options of the job."""
    scanner: Scanner
    committer: Committer
    clock: Clock

    @property
    def name(self) -> str:
        """Return the table's name, for messages and reports."""
        return self.scanner.table

    def unit_table(
        self, entries: ManifestEntries, proof: ProofMode, seed: str = "", *, whole: bool = False
    ) -> UnitTable:
        """Return what units know about the table: its schema, those of `entries`, and how their rows are
        proven.

        `seed` chooses the rows of sampled proofs. `whole`: the units cannot sample their rows.
        """
        mode = ProofMode.FULL if whole and proof is ProofMode.SAMPLED else proof
        reading = self.reading
        found = (int(schema_id) for schema_id in np.unique(entries.schema_id))
        ids = {schema_id for schema_id in found if schema_id <= reading.schema.id}
        schemas = {schema_id: reading.file_schema(schema_id) for schema_id in ids | {reading.schema.id}}
        older = [schema for schema_id, schema in schemas.items() if schema_id != reading.schema.id]
        shape = shape_of(reading.schema, reading.options, mode, older, seed)
        return UnitTable(reading=reading, shape=shape, schemas=schemas, clock=self.clock)
