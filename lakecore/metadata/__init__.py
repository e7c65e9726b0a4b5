"""This package has the records of the format as frozen values, with their encodings, and manifest entries as
numpy columns. No IO.
"""
