"""This package has the catalog whose names are on a server with Paimon's REST interface, of 1.4 and 2.0.

Databases and names of tables are read and changed by HTTP requests; rows are read from the storage that the
server names. This release writes no rows through it: commits belong to the server.
"""
