"""This package has the stores of files beyond local disks, and finds the store of a path by its scheme.

`store.py` says what a store is, `registry.py` finds it. `object_store.py` is a `FileIO` over obstore, which
`s3.py`, `azure.py`, `gcs.py`, `oss.py`, `cosn.py` and `obs.py` connect to their services by `client.py`, the
last three through `s3_services.py`. `profiles.py` reads what the environment says of S3.
`hdfs_files.py` is a `FileIO` over HDFS, which `hdfs.py` connects.
`fsspec` is a package that reads any other file system which the library fsspec knows.
"""
