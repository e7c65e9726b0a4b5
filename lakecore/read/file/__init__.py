"""This package reads one data file as batches of the table's columns: the row groups and pages to read,
deleted rows, and row ids.
"""
