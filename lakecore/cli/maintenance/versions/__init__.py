"""This package has the commands on the versions of a table: tags, automatic tags, branches and rollbacks."""
