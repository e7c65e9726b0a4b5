"""This package has the jobs on the versions of a table: tags, branches, going back to an older state, and the
positions of consumers.
"""
