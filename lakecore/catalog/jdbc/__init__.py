"""This package has the catalog whose names are in a relational database, as Java's `JdbcCatalog` keeps them.

Tables `paimon_tables`, `paimon_database_properties`, `paimon_table_properties` and `paimon_distributed_locks`
are those of Paimon 1.4 and 2.0, and `paimon_views` that of 2.0, so that Java and lakecore work on one
database in turns: SQLite, PostgreSQL, or MySQL and MariaDB, which need exact names (`mysql.py`). Files lie
where the filesystem catalog has them.
"""
