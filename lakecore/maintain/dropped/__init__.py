"""This package keeps tables that were dropped: `<warehouse>/.lakecore/dropped/<table>/<id>/`.

1. A record of the drop is written before anything is moved (`record`).
2. The directory of the table is renamed in one step where storage can do that. Elsewhere its files are moved
   one by one, schemas first and the newest schema last of them: from then on no engine finds the table, and
   until then it can be read only as far as its files are there, never as an empty table (`move`).
3. A drop that was killed is completed when it is repeated, and a table of that name cannot be created
   before.
4. `DroppedTables.restore` takes a table back; `purge` deletes what was dropped long ago, except tables on
   hold.
"""
