"""This package makes, replaces, renames, deletes and expires tags.

A new tag protects from the moment its file is there: a run that expires snapshots reads all tags again after
the snapshot files are gone. So a tag counts if its snapshot is still there after it was written.
"""
