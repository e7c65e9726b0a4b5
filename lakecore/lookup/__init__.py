"""Rows by key: what the higher levels of a bucket hold for the keys of a few new files."""
