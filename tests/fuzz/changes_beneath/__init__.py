"""Changes that Java Paimon or lakecore makes to a table at one storage operation of a chore of lakecore.

`python -m tests.fuzz.changes_beneath [--seed N] [--minutes M] [--shapes a,b] [--chores a,b] [--changes a,b]`: a case is
a kind of table, a chore, one operation of it, and a change that is made before this operation, or after the chore was
killed there and before it is repeated. Afterwards lakecore and Java must read rows that some order of the two gives, the
tags must have theirs, and Java's fsck must find nothing.
"""
