"""Holds: a table that showed damage, or that a person wants left alone, loses nothing until the hold ends."""
