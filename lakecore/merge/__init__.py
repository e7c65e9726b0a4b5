"""This package merges the sorted runs of a primary-key table into one: Arrow batches in, Arrow batches
out.
"""
