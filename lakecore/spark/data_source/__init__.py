"""This package has the format `lakecore` of Spark: tables are a source of DataFrames and of SQL.

It stands on Spark's Python Data Source API, and owns what lies between Spark and a `Scan`: the options of the
format (`request`), the types of columns (`spark_types`, `columns`), conditions that Spark hands over
(`filters`), the partitions of a read (`partitions`), and the classes that Spark calls (`format`, `reader`).
How rows are found and read is decided in `scan` and `read`.

Spark plans in a Python process beside the driver, when a DataFrame is first used: the snapshot is chosen
there, and all later uses of the DataFrame read the same plan. Partitions carry their splits, so that
executors open no catalog and read no manifests.
"""
