"""This package has the chores that keep a table small and in order: a folder per chore, each `plan.py`
(pure) and `apply.py`.

How deletion stays safe, for every chore alike:

1. What a table needs is what its *roots* reach (`roots.py`, `reachable.py`): snapshots, tags and the
   changelogs that outlive snapshots, of every branch. A file is removed only if no root reaches it.
2. Roots are removed first, files after. A snapshot or tag that can be seen is always complete, whatever
   crashes when.
3. Before anything changes, what will be removed and why is written down (`runs.py`, in
   `<warehouse>/.lakecore`). A run that was killed is finished by the next one on that table (`sweep.py`).
4. After the roots are gone they are all read again. Each root seen before must still be there, and what new
   ones reach is kept: a tag made meanwhile, a snapshot that brings old files back. A listing that shows
   fewer roots than expected stops the run before a file is touched.
5. Where asked, files are moved to a quarantine instead, from which `undo` takes them back.
"""
