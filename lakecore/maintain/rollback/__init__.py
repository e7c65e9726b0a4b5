"""This package rolls a table back to an older state, by removing what came after it or by committing it
again.
"""
