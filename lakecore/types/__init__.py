"""This package defines the data types of the format, fields and row types, and the texts of their values. It
imports nothing else of lakecore but errors.

`datatypes` has the types as frozen values with their JSON; `sql` writes them as SQL text. `arrow` maps them
to pyarrow types and back, with field ids as metadata. `text` converts values by arithmetic alone, so that any
year is right, in UTC.
"""
