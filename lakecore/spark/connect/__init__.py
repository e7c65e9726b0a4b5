"""This package has Spark Connect (`sc://host:port`) as the place where units of jobs run.

- `address` has the form of an address, and asks the server whether it answers.
- `session` opens a session, and `remote_version` checks that the workers of the server have this lakecore.
- `executor` runs units as operations of the session, by the functions of `unit_tasks`.

A client of Spark Connect has no SparkContext: no RDD, no accumulator, no groups of jobs.
"""
