"""This package has the jobs that repair a table: its metadata, what a plan of `fsck` lists, and entries of
files that no longer exist.
"""
