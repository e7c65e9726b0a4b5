"""Snapshots that nobody needs any more go, and with them the files that only they needed."""
