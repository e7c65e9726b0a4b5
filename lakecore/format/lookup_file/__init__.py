"""This package reads the lookup files that Java Paimon's compactions leave beside data files
(`lookup.remote-file.enabled`): sorted entries of a key and a row in compressed blocks.
"""
