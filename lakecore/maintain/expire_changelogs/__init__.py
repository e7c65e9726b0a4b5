"""Changelogs that outlived their snapshots go, and with them the files that only they needed."""
