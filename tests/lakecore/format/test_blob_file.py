"""Blob files: values come back, and damage is noticed. Java reads and writes them in tests/interop."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakecore.errors import CorruptDataError
from lakecore.format.blob_file import BlobSource, BlobWriter, load_blob_index
from lakecore.fs.memory import MemoryFileIO

PATH = "memory://blobs/x.blob"
VALUES = st.lists(st.none() | st.binary(max_size=200))


def written(values: list[bytes | None]) -> MemoryFileIO:
    file_io = MemoryFileIO("blobs")
    file_io.clear()
    writer = BlobWriter(file_io.open_output(PATH))
    writer.write(values)
    assert writer.close() == len(file_io.read(PATH))
    return file_io


def stored(file_io: MemoryFileIO) -> list[bytes | None]:
    index = load_blob_index(file_io, PATH)
    source = BlobSource(file_io, PATH)
    places = zip(index.starts.tolist(), index.sizes.tolist(), strict=True)
    return [None if size < 0 else source.read(start, size) for start, size in places]


@given(VALUES)
def test_values_come_back(values: list[bytes | None]) -> None:
    assert stored(written(values)) == values


@given(VALUES, st.data())
def test_damage_is_noticed(values: list[bytes | None], data: st.DataObject) -> None:
    """One changed byte, or a cut, is an error or changes nothing but nulls, which have no checksum."""
    good = written(values).read(PATH)
    at = data.draw(st.integers(0, len(good) - 1))
    cut = data.draw(st.booleans())
    bad = (
        good[:at] if cut else good[:at] + bytes([good[at] ^ data.draw(st.integers(1, 255))]) + good[at + 1 :]
    )
    file_io = MemoryFileIO("blobs")
    file_io.clear()
    file_io.write_new(PATH, bad)
    try:
        found = stored(file_io)
    except CorruptDataError:
        return
    assert [value for value in found if value is not None] == [v for v in values if v is not None]
