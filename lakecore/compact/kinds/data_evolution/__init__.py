"""Tables with `data-evolution.enabled`: several files contain different columns of the same rows.

`plan` picks row id ranges and the files that cover them, `run` merges the columns of a range into one file.
`blob_plan` and `blob_run` concatenate blob files, whose rows keep their ids.
"""
