"""Rollback to an older state of the table, by removing what came after it or by committing it again."""
