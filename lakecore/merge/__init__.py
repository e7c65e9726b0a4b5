"""Merging sorted runs of a primary-key table into one: Arrow batches in, Arrow batches out."""
