"""What makes two sets of rows equal: hashes of values, sums of hashes, covered columns across schema
versions. Pure.
"""
