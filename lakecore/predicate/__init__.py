"""Filters on rows as immutable trees: parsed from text, evaluated on batches and on statistics."""
