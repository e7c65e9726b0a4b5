"""Rows of an input that were copied are tallied where their copy is read."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from lakecore.errors import ProofError
from lakecore.types.datatypes import AtomicType, DataField, TypeRoot
from lakecore.verify.digest.columns import StoredFile
from lakecore.verify.digest.digest import ZERO, Tally
from lakecore.verify.digest.rows import tally_rows
from lakecore.verify.digest.shape import ProofMode, RowShape
from lakecore.verify.proof import copied_inputs
from lakecore.verify.proof.copied_inputs import CopiedInputs, has_tally_of_copy
from lakecore.verify.proof.spliced import CopiedGroups
from lakecore.verify.sample.key_marks import Marks
from tests.support.builders import data_file

KEY = (DataField(0, "k", AtomicType(TypeRoot.BIGINT, nullable=False)),)
SHAPE = RowShape(mode=ProofMode.SAMPLED, key=KEY)
ROWS = 100
COLUMNS = [
    pa.array(range(ROWS), pa.int64()),
    pa.array(range(1000, 1000 + ROWS), pa.int64()),
    pa.array([0] * ROWS, pa.int8()),
]
FIRST, SECOND = (StoredFile(f"in/{name}", replace(data_file(name), row_count=30)) for name in ("a", "b"))
COPIED = CopiedGroups({"out": [((10, 20), 4), ((20, 40), 4), ((40, 55), 7), ((60, 90), 5)]}, {})
"""Rows 10 to 40 are those of the first file, 60 to 90 those of the second one."""


def tally_of(start: int, stop: int) -> Tally:
    return tally_rows([column.slice(start, stop - start) for column in COLUMNS], SHAPE, 0)


@pytest.mark.parametrize("step", [1, 7, 10, 33, ROWS])
def test_batches_of_any_size(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    monkeypatch.setattr(copied_inputs, "count_proven_rows", counted.append)
    inputs = CopiedInputs(SHAPE, "unit", {4: FIRST, 5: SECOND}, COPIED)
    whole = ZERO
    for start in range(0, ROWS, step):
        whole += inputs.tally("out", start, [column.slice(start, step) for column in COLUMNS])
    assert sum(counted) == 60, "rows of inputs, which nobody reads"
    assert inputs.tally("other", 0, COLUMNS) == whole == tally_of(0, ROWS)
    marks: Marks = {}
    first, second = inputs.finished(marks)
    assert (first + ZERO, second + ZERO) == (tally_of(10, 40), tally_of(60, 90))
    assert (first.files, second.files) == ((FIRST.file,), (SECOND.file,))
    assert [(one.rows, one.keys[0], one.last) for one in (marks["in/a"], marks["in/b"])] == [
        (30, (10,), (39,)),
        (30, (60,), (89,)),
    ]


def test_rows_that_were_not_read() -> None:
    inputs = CopiedInputs(SHAPE, "unit", {4: FIRST, 5: SECOND}, COPIED)
    inputs.tally("out", 0, [column.slice(0, 89) for column in COLUMNS])
    with pytest.raises(ProofError, match="in/b has 30 rows, but 29 of its copy were read"):
        list(inputs.finished({}))


def test_which_inputs_are_tallied_by_their_copies() -> None:
    schema_id = FIRST.file.schema_id
    assert has_tally_of_copy(SHAPE, FIRST, schema_id)
    assert has_tally_of_copy(replace(SHAPE, mode=ProofMode.KEYS), FIRST, schema_id)
    assert not has_tally_of_copy(replace(SHAPE, mode=ProofMode.FULL), FIRST, schema_id)
    assert not has_tally_of_copy(replace(SHAPE, key=()), FIRST, schema_id)
    assert not has_tally_of_copy(SHAPE, FIRST, schema_id + 1)
    numbered = replace(FIRST, file=replace(FIRST.file, min_sequence_number=7, max_sequence_number=7))
    assert not has_tally_of_copy(replace(SHAPE, snapshot_ordering=True), numbered, schema_id)
