"""This package expires changelogs that outlived their snapshots, and the files that only they needed."""
