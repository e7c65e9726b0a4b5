"""Expiry of changelogs that outlived their snapshots, and of the files that only they needed."""
