"""This package has the sources of rows: a snapshot, the changes between two, the difference of two states, a
stream.
"""
