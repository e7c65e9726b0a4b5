"""This package deletes files safely. Everything that removes data files or metadata uses it.

1. Roots first: `roots` names every snapshot, changelog and tag of every branch; `reachable` is what they
   refer to.
2. A run is written down before it acts (`runs`), so that a killed one can be finished or undone.
3. Before the first removal the latest snapshot is read (`latest`): older snapshots may be all that is left
   of a sick table.
4. `sweep` looks at the roots that expire again (`root_guard`), removes them, reads what other roots reach,
   and only then removes files.
5. With a quarantine, files are moved aside and can be put back (`quarantine`).
"""
