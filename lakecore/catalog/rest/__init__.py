"""This package has the catalog whose names are on a server with Paimon's REST interface, of 1.4 and 2.0.

Databases, tables and branches are read and changed by HTTP requests, and the server commits snapshots; files
are read and written in the storage that it names.
"""
