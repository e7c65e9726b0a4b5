"""Rows as bytes, hashes, sort keys, directory names and JSON."""
