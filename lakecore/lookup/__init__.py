"""This package looks up rows by key: the rows that higher levels of a bucket have for the keys of a few new
files.
"""
