"""The search of bytes: what `find` says, with the function of the C library and without it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakecore import byte_search
from lakecore.byte_search import has_piece


@given(
    st.lists(st.sampled_from([b"\0", b"a", b"ab", b"\xff"])),
    st.lists(st.sampled_from([b"\0", b"a", b"\xff"]), max_size=4),
    st.none() | st.integers(0, 12),
)
def test_it_says_what_find_says(parts: list[bytes], pieces: list[bytes], end: int | None) -> None:
    data, piece = b"".join(parts), b"".join(pieces)
    expected = data[:end].find(piece) >= 0
    assert has_piece(data, piece, end) is expected
    assert has_piece(bytearray(data), piece, end) is expected


def test_it_looks_no_further_than_the_end() -> None:
    data = bytearray(b"x" * 1000 + b"needle")
    assert has_piece(data, b"needle")
    assert not has_piece(data, b"needle", 1005)
    assert has_piece(data, b"needle", 1006)
    assert has_piece(bytes(data), b"needle", 2000)
    data.append(0)  # nothing holds the buffer any more


def test_without_the_function_find_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert byte_search._memmem is not None, "the tests run on Linux"
    monkeypatch.setattr(byte_search, "_memmem", None)
    assert has_piece(b"abc", b"bc")
    assert not has_piece(bytearray(b"abc"), b"bc", 2)
