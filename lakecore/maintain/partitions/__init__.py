"""Partitions that are too old, or asked to go; partitions that are declared complete."""
