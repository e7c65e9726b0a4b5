"""Expiry of snapshots: snapshots that nobody needs are removed, and with them the files that only they
needed.
"""
