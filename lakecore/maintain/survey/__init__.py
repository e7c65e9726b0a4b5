"""A survey looks at all tables of a lake and says how healthy each one is.

- `record.py` has the values: the figures of a table, its health, one line a table, and their JSON. Pure.
- `plan.py` decides: the score of a table with its deductions by name, and when the table will be due.
Pure.
- `measure.py` reads the figures of one table. A table whose latest snapshot and schema are those of the
last survey keeps the figures of its files; only the listings of its snapshots, tags and consumers are
read.
- `store.py` keeps the surveys of a warehouse in `<warehouse>/.lakecore/survey`.

A survey reads and never changes a table. It is observation, not proof: what a job does is planned from
the table itself, never from a survey.
"""
