"""This package has jobs that make tables of Hive's directories, and that name tables in a catalog."""
