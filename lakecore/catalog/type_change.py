"""This module has the types that a column may change to: the casting rules of the format that readers here
support.

A change is allowed when the format has both a permission (implicit, or explicit unless the table forbids
that) and a rule that converts values. Pure.
"""

from __future__ import annotations

from lakecore.types.datatypes import MAX_LENGTH, AtomicType, DataType, TypeRoot, with_nullable

__all__ = ["can_change", "needs_a_zone"]

_T = TypeRoot
_TEXT = frozenset((_T.CHAR, _T.VARCHAR))
_BYTES = frozenset((_T.BINARY, _T.VARBINARY))
_WHOLE = (_T.TINYINT, _T.SMALLINT, _T.INT, _T.BIGINT)
_INTEGERS = frozenset(_WHOLE)
_FLOATS = frozenset((_T.FLOAT, _T.DOUBLE))
_NUMBERS = _INTEGERS | _FLOATS | {_T.DECIMAL}
_TIMESTAMPS = frozenset((_T.TIMESTAMP, _T.TIMESTAMP_LTZ))
_DAYTIME = frozenset((_T.DATE, _T.TIME)) | _TIMESTAMPS

_EXPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    **dict.fromkeys(_TEXT, _TEXT | _BYTES | _NUMBERS | _DAYTIME | {_T.BOOLEAN}),
    **dict.fromkeys(_BYTES, _TEXT | _BYTES),
    **dict.fromkeys(
        (_T.FLOAT, _T.DOUBLE, _T.DECIMAL, _T.TINYINT, _T.SMALLINT), _NUMBERS | _TEXT | {_T.BOOLEAN}
    ),
    **dict.fromkeys((_T.INT, _T.BIGINT), _NUMBERS | _TEXT | {_T.BOOLEAN} | _TIMESTAMPS),
    **dict.fromkeys(_TIMESTAMPS, _DAYTIME | _TEXT | {_T.INT, _T.BIGINT}),
    _T.BOOLEAN: _TEXT | _INTEGERS,
    _T.DATE: _TEXT | _TIMESTAMPS,
    _T.TIME: _TEXT | _TIMESTAMPS,
}
"""Target -> sources, where the format has both the permission and the rule."""

_IMPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    _T.CHAR: frozenset((_T.CHAR,)),
    _T.VARCHAR: _TEXT,
    _T.BINARY: frozenset((_T.BINARY,)),
    _T.VARBINARY: _BYTES,
    _T.DECIMAL: _NUMBERS,
    _T.DOUBLE: _NUMBERS,
    _T.FLOAT: _INTEGERS | {_T.FLOAT, _T.DECIMAL},
    **{root: frozenset(_WHOLE[: place + 1]) for place, root in enumerate(_WHOLE)},
    **dict.fromkeys(_TIMESTAMPS, _TIMESTAMPS),
    _T.DATE: frozenset((_T.TIMESTAMP,)),
    _T.TIME: frozenset((_T.TIMESTAMP,)),
}
"""The casts that need no explicit cast, because no information is lost."""

_ONLY_TO_STRING = _DAYTIME


def can_change(old: DataType, new: DataType, *, explicit: bool) -> bool:
    """Return whether a column of type `old` may become `new`; without `explicit` only casts that keep all
    information.
    """
    if not isinstance(old, AtomicType) or not isinstance(new, AtomicType):
        return False
    if not explicit and old.nullable and not new.nullable:
        return False
    if old.root not in _EXPLICIT.get(new.root, frozenset()):
        return False
    if old.root in _ONLY_TO_STRING and new.root in _TEXT:
        # Spec: dates and times become STRING itself, no text of another length, nor a NOT NULL one.
        return explicit and new.root is _T.VARCHAR and new.length == MAX_LENGTH and new.nullable
    if explicit:
        return True
    return old.root in _IMPLICIT.get(new.root, frozenset()) or _same(old, new)


def needs_a_zone(old: DataType, new: DataType) -> bool:
    """Return whether the value depends on the time zone of the reader. Java takes the zone of its process."""
    roots = {kind.root for kind in (old, new) if isinstance(kind, AtomicType)}
    if _T.TIMESTAMP_LTZ not in roots or len(roots) == 1:
        return False
    return not roots & _INTEGERS


def _same(old: AtomicType, new: AtomicType) -> bool:
    return with_nullable(old, True) == with_nullable(new, True)
