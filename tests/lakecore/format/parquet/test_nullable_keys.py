"""Maps of files by Paimon 0.8, whose keys may be null by the schema of the file."""

from __future__ import annotations

import base64
import zlib

import pytest

from lakecore.format.canonical import canonical
from lakecore.format.data_reader import open_reader
from lakecore.fs.memory import MemoryFileIO
from lakecore.types.arrow import arrow_type
from lakecore.types.datatypes import MapType, parse_type

PATH = "memory://maps/old.parquet"
ROWS = [{"k": 1, "m": [("a", 1), ("b", 2)]}, {"k": 2, "m": None}, {"k": 3, "m": [("c", 7)]}]
FILE = (
    "eNplUr9r21AQPj25sgzJ0JI7LHiDKbVQIDFWLCVK0dBCh1IyhAwZ7ehXsbGVpE4dyH+SDIEOJWTI2g79A9yt3foXlA6dOpZM"
    "uScZrFLQO7373nfffe94+y8PXAR8hg5+vPvzsyHR4NRAE+DJKwEAel3jWOx48VmAz/HT/dfPqxLNgmoAyGZBELpmvPgOqiBS"
    "IVYhYdIWevj719V1tcZa1nhljcrrvKzHwmrWFMK/oquwaAFrEa9EAeJfXn3BY1iSiYekYEl9HC52cw1jKkmT16un0Sg/OR6c"
    "JcMsj7DGaFs0tTH4HHMUKPY2mOvXmo1xdjE4jyazDGuKt8I8nbE27MlCjfNHxTmQYUkrtE3JLXwTDHY6RkEGHdChbYblXUrD"
    "BE4lY3uoRssDoBsd1+hWYAfsvsQVq806gZYvbajmrGrSWxra/XBbOFrCY6lqfFEaPwQ+BXuuKTf/iZSOC5kjipkVlhNcuBNO"
    "Jasqf9OR6K9yR5d8M9ukD2INwHlzGk3fzbL3m/m0dZ5Nz0Ynxy234/Y6bsuJZ6NJ2kpjzw16bnc39eOdnpcl/m6vmwY73SSN"
    "MnfbzbxukKZxtG6FPNfygzvuv88v9AHItmbH"
)
"""Written by Java Paimon 0.8.2: k INT, m MAP<STRING, INT>."""


@pytest.mark.parametrize("columns", [None, ["m"], ["k"]])
def test_they_are_read_as_maps(columns: list[str] | None) -> None:
    files = MemoryFileIO("maps")
    files.overwrite(PATH, zlib.decompress(base64.b64decode(FILE)))
    reader = open_reader(files, PATH)
    (batch,) = reader.batches(columns)
    assert batch.schema.names == (columns or ["k", "m"])
    if "m" in batch.schema.names:
        kind = MapType(parse_type("STRING"), parse_type("INT"))
        found = canonical(batch.column("m"), kind, PATH)
        found.validate(full=True)
        assert found.type == arrow_type(kind)
        assert found.to_pylist() == [row["m"] for row in ROWS]
        assert canonical(batch.column("m").slice(2), kind, PATH).to_pylist() == [[("c", 7)]]
