"""This package empties a table and removes its history: all but one empty snapshot, and the schemas."""
