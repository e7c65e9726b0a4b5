"""Which partition and bucket each row goes to: fixed, dynamic, postponed, and keys that may change their
partition.
"""
