"""This package has the catalog whose names are in a Hive metastore, as Java's `HiveCatalog` keeps them.

Java and lakecore work on one metastore in turns. lakecore reads and changes Paimon tables, format tables and
views only; the names of other tables count, but they are not listed.
"""
