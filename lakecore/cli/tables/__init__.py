"""This package has the commands that read and change tables: create, alter, describe, read, stream, write,
delete.
"""
