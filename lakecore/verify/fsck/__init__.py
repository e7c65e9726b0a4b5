"""This package checks whether a table is intact, from hints to the rows of each file. It changes nothing."""
