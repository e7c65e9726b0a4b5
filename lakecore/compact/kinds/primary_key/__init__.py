"""Primary-key tables: sorted runs of a bucket are merged by the rules of universal compaction.

`plan` picks runs, `cut` divides a pick by keys into units of some size, `run` merges one unit while a
certifier checks each window of keys, and `lookup` adds what changelog producers and merge engines need from
older rows.
"""
