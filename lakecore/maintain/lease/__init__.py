"""An advisory lease a table: two chores of lakecore do not work on one table at once.

`lease` takes and releases it, `heartbeat` renews it while work takes long, `process` tells whether its
owner is still alive.
"""
