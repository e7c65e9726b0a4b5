"""This package reads and writes MAP columns of the layout shared-shredding: the keys of a row share a fixed
number of value columns.

`shred` writes the layout, `assemble` reads it; what a file's footer says of its columns is in
`footer_metadata`.
"""
