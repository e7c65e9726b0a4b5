"""This package has the views of a Hive catalog: entries of the metastore with the type `VIRTUAL_VIEW`."""
