"""This package removes files that nothing refers to: leftovers of failed commits, killed jobs, rollbacks
and deleted branches.
"""
