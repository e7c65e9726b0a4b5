"""This package chooses the columns of a read: whole ones, and ROWs of which only some fields are read."""
