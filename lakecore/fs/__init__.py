"""This package moves bytes: it has the `FileIO` protocol over the local disk, memory, S3 and other stores,
and the guard of paths.
"""
