"""This package changes rows by a condition or by a source that is joined: `Table.update` and `Table.merge`.

Rows are read at one snapshot and committed in one. With a primary key changed rows are written as +U and -D.
Without one a row is replaced: it is deleted by a deletion vector where the table has them, else its data file
is written anew without it, and its new form is appended.
"""
