"""This package checks what the rows of one file must agree with: its statistics, its file indexes, the order
of its keys, its blobs.
"""
