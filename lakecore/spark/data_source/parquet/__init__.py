"""This package hands scans to the reader of Parquet that Spark has itself, where it gives exactly their
rows.
"""
