"""This module computes expressions of pyarrow.compute, and conditions, over the columns of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.errors import InvalidInputError
from lakecore.predicate.evaluate import mask
from lakecore.predicate.parse import parse_where
from lakecore.predicate.tree import Predicate
from lakecore.types.arrow import row_type_from_arrow

__all__ = ["compute", "matching_rows", "parse_condition"]


def compute(expressions: Mapping[str, pc.Expression], inputs: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the values of expressions for each row. Raises InvalidInputError for one that cannot be
    computed.
    """
    if not expressions:
        return {}
    import pyarrow.acero as acero  # brings pandas in, which takes a second: only for expressions

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([inputs])))
    project = acero.ProjectNodeOptions(list(expressions.values()), list(expressions))
    try:
        table = acero.Declaration("project", project, [source]).to_table(use_threads=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as err:
        raise InvalidInputError(f"an expression cannot be computed: {str(err).splitlines()[0]}") from err
    return {name: table.column(name).combine_chunks() for name in expressions}


def parse_condition(condition: Any, columns: pa.Schema) -> pc.Expression | Predicate | None:
    """Return an expression as it is, and a text as a predicate over `columns`. Raises InvalidInputError."""
    if condition is None or isinstance(condition, pc.Expression):
        return condition
    if not isinstance(condition, str):
        raise InvalidInputError(
            f"condition {condition!r}: give an expression of pyarrow.compute, or a filter as text"
        )
    return parse_where(condition, row_type_from_arrow(columns))


def matching_rows(
    condition: pc.Expression | Predicate | None, inputs: pa.RecordBatch
) -> npt.NDArray[np.bool_]:
    """Return for which rows a condition is true; null is not. Raises InvalidInputError for an expression that
    is no condition.
    """
    if condition is None:
        return np.ones(inputs.num_rows, dtype=np.bool_)
    if isinstance(condition, pc.Expression):
        values = compute({"condition": condition}, inputs)["condition"]
        if not pa.types.is_boolean(values.type):
            raise InvalidInputError(f"condition {condition}: it is {values.type}, not true or false")
        hits = pc.fill_null(values, False)
    else:
        hits = mask(condition, inputs)
    return np.asarray(hits.to_numpy(zero_copy_only=False), dtype=np.bool_)
