"""This package has jobs that make tables of directories and of tables, and that name tables in a catalog."""
