"""This package reads and writes Avro: data files through fastavro, and metadata files through a decoder of
our own.

`reader` and `writer` are for data files. `container`, `schema` and `values` decode one value at a time;
`vectorized` decodes the records of many blocks in step, for manifests of millions of entries.
"""
