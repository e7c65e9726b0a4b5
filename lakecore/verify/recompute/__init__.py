"""The results of a merge worked out anew, by another way than the merge takes. Pure.

`expected` gives the row kind and the sequence number of a key's result, `values` its columns,
`expected_changes` the lines of its change stream. `account` compares what a merge reports of itself with
what its rows must become.
"""
