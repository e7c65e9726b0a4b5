"""This package has the readers of one split: files in order, a merge of sorted runs, or the difference of two
states of a bucket.
"""
