"""This package authorizes the requests of a REST catalog: by a bearer token, or by signatures of DLF."""
