"""Commits: pure functions find conflicts, snapshots are published atomically, and each published snapshot is
checked again after a settle time.
"""
