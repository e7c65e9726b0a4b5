"""This package has the contents of manifests: data files and index files, entries as numpy columns, and
which of them are live. It does no IO.
"""
