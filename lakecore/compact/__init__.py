"""Compaction: plan picks from one snapshot, run their units anywhere, prove them, commit what holds.

`plan.py` decides and touches nothing; `run.py` is one unit on an executor; `apply.py` turns picks into units.
`driver.py` runs and commits the units of either kind of table.
"""
