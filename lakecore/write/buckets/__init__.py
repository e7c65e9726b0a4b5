"""This package assigns rows to partitions and buckets: fixed, dynamic, postponed, and keys that may change
partitions.
"""
