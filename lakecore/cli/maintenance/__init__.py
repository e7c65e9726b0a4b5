"""Commands that keep tables healthy: compaction, expiry, tags, branches, checks and repairs."""
