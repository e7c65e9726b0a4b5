"""This package converts stored columns to columns of the table: changed types, default values, blobs and
their references.
"""
