"""Stored columns as columns of the table: changed types, default values, blobs and their references."""
