"""This package tells listeners of lineage what sources read."""
