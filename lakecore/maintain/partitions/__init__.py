"""This package handles partitions that are too old, or that are to be dropped, and partitions that are
declared complete.
"""
