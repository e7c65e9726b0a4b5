"""This package has the metadata stores of a table's directory: its layout, snapshots, schemas, manifests,
tags, branches and consumers.
"""
