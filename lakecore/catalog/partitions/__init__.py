"""This package has the partitions of a table as catalogs list them, with counts, and ways to change them."""
