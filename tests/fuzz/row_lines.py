"""Rows as lines of canonical JSON, so that rows of lakecore and of Java compare as text."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lakecore.metadata.row_kind import RowKind
from lakecore.row.json_rows import batch_to_json
from tests.support.golden import canonical
from tests.support.serialized_sets import meaning

__all__ = ["changed_lines", "inserts", "line", "read_lines"]

_BYTES = re.compile(r'"0x([0-9a-f]+)"')


def read_lines(scan: Any) -> list[str]:
    """What a scan of lakecore finds, sorted."""
    lines = (text for batch in scan.to_batches() for text in batch_to_json(batch, scan.row_type, "+I"))
    return inserts(canonical(lines))


def inserts(rows: Iterable[str]) -> list[str]:
    """Whether a read shows +U as +I depends on how files are laid out, in Java too."""
    return sorted(_settled(row).replace('"_kind": "+U"', '"_kind": "+I"') for row in rows)


def changed_lines(batches: Iterable[Any], rows: Any) -> Iterator[str]:
    """Rows with their kinds. `rows`: has `columns` and `row_type`."""
    for batch in batches:
        kinds = batch.column("_VALUE_KIND").to_pylist()
        lines = batch_to_json(batch.select(list(rows.columns)), rows.row_type)
        for kind, text in zip(kinds, lines, strict=True):
            yield line({"_kind": RowKind(kind).symbol, **json.loads(text)})


def line(row: Mapping[str, Any]) -> str:
    """One row of Java's JSON."""
    return _settled(json.dumps(row, sort_keys=True, ensure_ascii=False))


def _settled(text: str) -> str:
    """Bitmaps and sketches by what they stand for: their bytes depend on how often they were united."""
    return _BYTES.sub(lambda found: _stands_for(found[1]), text) if '"0x0' in text else text


@functools.lru_cache(4096)
def _stands_for(digits: str) -> str:
    value = bytes.fromhex(digits)
    stands = meaning(value)
    return f'"0x{digits}"' if stands is value else f'"set {hash(stands)} of {digits[:6]}"'
