"""This package compares two sets of rows: hashes of values, sums of hashes, covered columns across schema
versions. It is pure.
"""
