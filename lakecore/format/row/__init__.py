"""This package reads and writes data files of format `row`: blocks of whole rows, for lookups by the number
of a row.
"""
