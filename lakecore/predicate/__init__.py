"""This package has filters on rows as immutable trees over column names and internal values.

`parse` makes a tree of text, `arrow_filter` of an Arrow expression. `evaluate` decides row by row on batches,
with SQL's three-valued logic; `stats` decides on minima, maxima and null counts whether a file or a row
group can hold a row that matches, and keeps it in doubt. `literals` makes the comparison of a column with
a value exact for the type of the column. `bounds` tells the whole numbers to which a filter
restricts a column.
"""
