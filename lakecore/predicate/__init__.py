"""This package has filters on rows as immutable trees: they are parsed from text, and evaluated on batches
and on statistics.
"""
