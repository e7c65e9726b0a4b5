"""Removal of files that nothing refers to: leftovers of failed commits, killed jobs, rollbacks and deleted
branches.
"""
