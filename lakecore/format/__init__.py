"""This package converts containers and data files between bytes and values. Each container or layout has a
folder with a reader and a writer.

`data_reader` and `data_writer` choose the format of a data file; `canonical` and `arrow_nested` convert
what a format stores to the Arrow types of the table; `shredding` and `shredders` know which columns a file
stores in another layout than the table has. `bounds` and `statistics` make column statistics. `corruption`
turns the failures of the codecs into CorruptDataError. Nothing here knows where a file belongs in a table.
"""
