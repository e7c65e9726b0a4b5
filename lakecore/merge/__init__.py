"""This package merges the sorted runs of a primary-key table into one: Arrow batches in, Arrow batches
out.

`windows` cuts the runs into windows of keys, so that all rows of a key are in one window; `row_order` orders
the rows of a window by key, sequence fields and sequence number; `groups` has one group for each key, and
an `Engine` of `engines/` makes one row of it. Merge engine `deduplicate` needs no groups: `sorted_merge`
takes the last row of each key. Keys are compared as the format compares them (`key_columns`), whole columns
at a time.

Memory is a window, not a bucket: some ten thousand rows of each run. More runs than fit at once are merged
or copied to local disk first (`passes`), and `row_sorter` sorts any number of rows with spills.
"""
