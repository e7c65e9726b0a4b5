"""The contents of manifests: data files and index files, entries as numpy columns, and which of them are
live. No IO.
"""
