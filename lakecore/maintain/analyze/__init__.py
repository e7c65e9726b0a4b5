"""This package computes statistics of a table's rows for planners of queries: they are made from a merged
read and kept by a snapshot.
"""
