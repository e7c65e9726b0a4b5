"""This package assigns buckets, and partitions where keys move, in tasks of Spark, before rows come to their
writers.
"""
