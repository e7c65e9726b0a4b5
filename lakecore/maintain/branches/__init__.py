"""This package makes, deletes and renames branches, and lets main become what a branch is.

A branch without a schema cannot be judged, so a schema is written first and removed last.
"""
