"""One data file as batches of the table's columns: which row groups and pages are needed, deleted rows, row
ids.
"""
