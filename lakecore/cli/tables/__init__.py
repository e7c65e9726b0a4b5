"""This package has the commands that read tables and change their rows: describe, read, stream, write,
delete.
"""
