"""This module encodes the footer of some row groups and runs of pages as far as it is known before their
pages are read: rows and statistics. It is for readers of statistics, and describes no file.
"""

from __future__ import annotations

from lakecore.format.parquet.splice import fields as f
from lakecore.format.parquet.splice.fields import changed
from lakecore.format.parquet.splice.footer import Chunk, Footer, PageRun, RowGroup
from lakecore.format.parquet.thrift_compact import WireType
from lakecore.format.parquet.thrift_spans import encode_changed, list_of

__all__ = ["groups_footer"]

_STRUCT, _LIST = int(WireType.STRUCT), int(WireType.LIST)


def groups_footer(footer: Footer) -> bytes:
    """Return the thrift bytes of a footer of these row groups. It is the stored one where no pages of a row
    group were left out.
    """
    if not any(group.runs for group in footer.groups):
        return footer.thrift
    groups = [_group(footer, group) for group in footer.groups]
    changes = {f.FILE_ROWS: changed(WireType.I64, footer.rows), f.FILE_GROUPS: (_LIST, list_of(groups))}
    return encode_changed(footer.thrift, footer.fields, changes)


def _group(footer: Footer, group: RowGroup) -> bytes:
    if not group.runs:
        return encode_changed(footer.thrift, group.fields, {})
    chunks = [
        _chunk(footer, chunk, run, group.rows) for chunk, run in zip(group.chunks, group.runs, strict=True)
    ]
    changes = {f.GROUP_ROWS: changed(WireType.I64, group.rows), f.GROUP_COLUMNS: (_LIST, list_of(chunks))}
    return encode_changed(footer.thrift, group.fields, changes)


def _chunk(footer: Footer, chunk: Chunk, run: PageRun, rows: int) -> bytes:
    """Return a column chunk, whose values are counted as if each row had one: nested columns have none that
    statistics tell of.
    """
    changes = {f.META_VALUES: changed(WireType.I64, rows), f.META_STATISTICS: (_STRUCT, run.statistics)}
    meta = encode_changed(footer.thrift, chunk.meta, changes)
    return encode_changed(footer.thrift, chunk.fields, {f.CHUNK_META: (_STRUCT, meta)})
