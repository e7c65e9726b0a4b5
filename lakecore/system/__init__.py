"""This package has the system tables (`t$snapshots`, `t$files`, `sys.tables`), which are read like tables and
never written. Names, columns and texts are Paimon's.

`system_table` is their common form. `view` has those whose rows are computed from metadata (`snapshots`,
`files`, `counts`, `names`); `change_log` and `row_tracking` show rows of the table, and `streams` follows
them. `catalog_tables` has the tables that describe a whole warehouse, which cost a look at every table.
"""
