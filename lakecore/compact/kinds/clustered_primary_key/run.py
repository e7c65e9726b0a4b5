"""This module runs one unit: a merge of level 0, or files above it sorted together, without deleted rows and
deletes.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from lakecore.compact.engine.outputs import compacted_files, stored
from lakecore.compact.engine.work import UnitResult
from lakecore.compact.kinds.primary_key.run import run_unit as run_merge
from lakecore.compact.kinds.primary_key.unit import MergeUnit
from lakecore.compact.kinds.sort.run import SortUnit, keyed_rows, tally
from lakecore.executor import count_rows
from lakecore.merge.passes import Scratch
from lakecore.merge.row_sorter import RowSorter
from lakecore.metadata.row_kind import KIND_NAME, SEQUENCE_NAME, is_retract
from lakecore.verify.proof.certificate import DropCertifier
from lakecore.verify.proof.pick_proof import UnitProof, check_outputs
from lakecore.write.files.rolling import FileSpec, RollingWriter

__all__ = ["run_unit"]


def run_unit(unit: MergeUnit | SortUnit) -> UnitResult:
    """Run the unit. On any failure the files of this attempt are removed.

    Raises ProofError when the outputs do not hold, CorruptDataError, UnavailableError (disk full).
    """
    return run_merge(unit) if isinstance(unit, MergeUnit) else _run_sort(unit)


def _run_sort(unit: SortUnit) -> UnitResult:
    table = unit.table
    writer = RollingWriter(table.reading.file_io, _spec(unit), table.clock.now_ms)
    certifier = DropCertifier(unit.name, table.shape, may_drop=unit.licensed)
    try:
        with Scratch() as scratch:
            rows_in = _sort(unit, RowSorter(scratch), writer, certifier)
        files = writer.close()
        outputs = check_outputs(table.proof, unit.name, [stored(unit, file) for file in files])
        inputs = tuple(tally(unit, number) for number in unit.checked)
    except BaseException:
        writer.abort()
        raise
    proof = UnitProof(unit=unit.name, outputs=outputs, evidence=certifier.evidence)
    return UnitResult(unit=unit.name, files=files, rows_in=rows_in, inputs=inputs, proof=proof)


def _sort(unit: SortUnit, sorter: RowSorter, writer: RollingWriter, certifier: DropCertifier) -> int:
    """Sort the rows and return how many are within the bounds."""
    rows_in = 0
    columns = (SEQUENCE_NAME, KIND_NAME, *unit.table.schema.row_type.names)
    with closing(keyed_rows(unit, columns)) as parts:
        for part in parts:
            count_rows(part.num_rows)
            rows_in += part.num_rows
            dropped = pa.array(is_retract(part.column(KIND_NAME).to_numpy()))
            certifier.batch(part.num_rows, part.filter(dropped))
            sorter.add(part.filter(pa.compute.invert(dropped)))
    for batch in sorter.sorted():
        writer.write(batch)
    return rows_in


def _spec(unit: SortUnit) -> FileSpec:
    spec = compacted_files(unit.table, unit.bucket_dir, unit.file_prefix, keyed=True, level=unit.output_level)
    return replace(spec, clustering_columns=unit.rule.columns)
