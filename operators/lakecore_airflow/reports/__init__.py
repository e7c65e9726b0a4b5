"""This package reports finished tasks to other systems: their metrics and their lineage."""
