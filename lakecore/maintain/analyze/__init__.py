"""Statistics of a table's rows for planners of queries: made from a merged read, kept by a snapshot."""
