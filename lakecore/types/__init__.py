"""This package defines data types, fields, row types and their JSON; `arrow.py` maps them to pyarrow."""
