"""Commits: conflicts are found by pure functions, a snapshot is published atomically, and what became of it
is looked at again.
"""
