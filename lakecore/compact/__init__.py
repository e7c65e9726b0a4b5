"""This package has compaction and every other job that rewrites data files: plan, run units anywhere,
prove, commit.

These are its rooms, from top to bottom. Each imports only what stands below it.

- `compaction`: what a compaction of one table does, round by round.
- `planning`: which kind a table is of; its planner makes the picks that the rules ask for.
- `kinds`: one package for each way to rewrite files: what to rewrite (`plan`, pure), how one unit does it on
  an executor (`run`), and how plans become units (`apply`); `planner`, where compaction uses the kind, is the
  one door: from live files to a round of work.
- `engine`: what all kinds share: the run with its one loop over rounds, picks and their results, the driver
  that runs, proves and commits picks, the names of the files of an attempt, the removal of what was not
  committed. It knows no kind.
- `pool`: one executor and one memory budget for the units of many tables.
"""
