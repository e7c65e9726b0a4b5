"""This package converts rows to bytes, hashes, sort keys, directory names and JSON."""
