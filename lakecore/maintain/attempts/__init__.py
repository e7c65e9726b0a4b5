"""This package keeps a record of every attempt of a job: what it was to do, how it ended, and who began it.

- `record.py` has the record, how it is read and written, and which attempts count as killed.
- `store.py` keeps the records of a warehouse in `<warehouse>/.lakecore/ledger`.
"""
