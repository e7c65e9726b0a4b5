"""VARIANT columns in typed columns (shredding): `shred` takes values apart, `assemble` puts them together
again.

`assemble_vectorized` does this for all rows at once where the columns are as writers leave them.
"""
