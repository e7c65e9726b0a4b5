"""The replay of an expiry says what another retention of snapshots and tags would have removed, and when.

The replay goes through the commits that are still there, in order, and runs the expiry of
`lakecore.maintain.expire_snapshots.plan` at the moments that are asked for. It removes nothing.

What it says is exact for the files that are reachable today. It knows nothing of what has expired already,
and of positions that consumers had earlier: they hold back what they hold back now.
"""
