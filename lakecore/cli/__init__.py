"""This package is the command line: it parses arguments, calls the core and prints what it returns. It
holds no logic of the core.
"""
