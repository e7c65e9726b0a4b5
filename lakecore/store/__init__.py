"""Where metadata lies: the layout of a table's directory; snapshots, schemas, manifests, tags, branches and
consumers.
"""
