"""This package reads the file systems of the library fsspec, and changes nothing there.

`store.py` finds a file system by the scheme of a location, `connection.py` opens it, `files.py` has the reads
of `FileIO`, and `failures.py` turns errors of all these libraries into lakecore's.

fsspec has no creation that fails if the name is taken, which a commit needs. So each change is refused before
a request is sent.
"""
