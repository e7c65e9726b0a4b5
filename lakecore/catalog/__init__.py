"""This package has finds, creates and alters databases and tables by name, with the checks that the format
requires.
"""
