"""This package converts manifests, manifest lists and index manifests from bytes to values and back.

`manifests` and `index_manifests` are the codecs. `columns` decodes many avro manifests straight into numpy
columns, and `blocks` keeps the details of entries compressed until they are asked for. `arrow` is for
manifests in parquet or ORC.
"""
