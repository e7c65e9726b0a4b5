"""Stored columns as columns of the table: changed types, default values, blobs and the rows that they refer
to.
"""
