"""This module has the aggregate function listagg, which joins the texts of a key by a delimiter.

Rule of the format (2.0; before, blank texts of spaces were joined too): a blank text is left out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakecore.data_class import dataclass
from lakecore.merge.engines.events import Events, Step
from lakecore.merge.groups import Column
from lakecore.merge.row_order import Bools

__all__ = ["ListAgg"]

_BLANK = (
    r"\A[\t-\r\x{1c}-\x{20}\x{1680}\x{2000}-\x{2006}\x{2008}-\x{200a}"
    r"\x{2028}\x{2029}\x{205f}\x{3000}]*\z"
)
_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f \u1680\u2028\u2029\u205f\u3000" + "".join(
    chr(code) for code in range(0x2000, 0x200B) if code != 0x2007
)


@dataclass(frozen=True, slots=True)
class ListAgg:
    """`distinct`: a later text adds only parts (between delimiters) that are not there yet.

    A late text, blank or not, replaces a blank one (rule of the format).
    """

    delimiter: str = ","
    distinct: bool = False
    retracts: bool = False

    def fold(self, column: pa.Array, events: Events) -> Column:
        events = events.settled
        replaces = (events.steps == Step.SET) | (events.steps == Step.OLDER)
        texts_kept = events.picks(events.last_where(replaces))
        return self._join(column, events, column.take(pa.array(texts_kept, mask=texts_kept < 0)))

    def _join(self, column: pa.Array, events: Events, state: pa.Array) -> pa.Array:
        events = events.keep(~_blank(column.take(pa.array(events.rows))))
        ordered = _late_first(events)
        texts = column.take(pa.array(ordered.rows))
        lists = pa.ListArray.from_arrays(pa.array(events.starts, pa.int32()), texts)
        empty = pa.array(np.diff(events.starts) == 0)
        if self.distinct:
            joined = pa.array([self._distinct(parts) for parts in lists.to_pylist()], column.type)
        else:
            joined = pc.binary_join(lists, self.delimiter)
        return pc.if_else(empty, state, joined)

    def _distinct(self, texts: list[str]) -> str:
        if len(texts) < 2:
            return "".join(texts)
        distinct = set(_parts(texts[0], self.delimiter))
        out = [texts[0]]
        for text in texts[1:]:
            for part in _parts(text, self.delimiter):
                if part.strip(_SPACES) and part not in distinct:
                    distinct.add(part)
                    out.append(part)
        return self.delimiter.join(out)


def _parts(text: str, delimiter: str) -> list[str]:
    return text.split(delimiter or " ")


def _blank(texts: pa.Array) -> Bools:
    is_blank = pc.fill_null(pc.match_substring_regex(texts, _BLANK), True)
    return np.asarray(is_blank.to_numpy(zero_copy_only=False))


def _late_first(events: Events) -> Events:
    """Return the events with late rows before the others, the last of them first."""
    late = events.steps == Step.OLDER
    if not late.any():
        return events
    places = np.arange(len(events))
    order = np.lexsort((np.where(late, -1 - places, places), events.groups))
    return Events(events.rows[order], events.steps[order], events.starts)
