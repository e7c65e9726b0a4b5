"""Repair by a plan: what is wrong becomes steps, which are written down, read by people, and applied one by
one.

A step remembers every change that it would make. Before it is applied it is worked out again from the table
as it is then: what is done already is left out (a killed repair continues), and a change that was not in the
plan means that the plan is stale, and stops it. Files are moved to the quarantine, never deleted for good.
"""
