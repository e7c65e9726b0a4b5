"""This package has the writers of the files of one bucket: they roll at the target size and return the
metadata for manifests.
"""
