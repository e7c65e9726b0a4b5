"""Rows as callers bring them, as rows of the table: types, defaults, row kinds; sorted, and spilled where
memory ends.
"""
