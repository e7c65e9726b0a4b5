"""ORC data files: pyarrow decodes the rows; `times` and `stripes` correct timestamps that pyarrow reads
otherwise than Java.

`footers`, `protobuf` and `lzo` read the end of a file; `tail` adds metadata to a footer, which pyarrow
cannot do.
"""
