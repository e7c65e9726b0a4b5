"""This package has the system tables (`t$snapshots`, `t$files`, ...) as Arrow tables, with columns as the
format names them.
"""
