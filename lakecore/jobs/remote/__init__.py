"""A job runs on another machine: its request, its progress and its report are JSON files in the warehouse.

`<warehouse>/.lakecore/jobs/<id>/` is one job:

| file | written | meaning |
|---|---|---|
| `job.json` | once, by the submitter | the request: steps, origin; it has no secrets |
| `run-<n>.json` | by runner n, replaced at each beat | runner n has claimed the job; its beat and progress |
| `result-<n>.json` | once | how run n ended: by its runner, or by whoever saw that it was lost |
| `cancel-<submission>` | once | runners of this submission stop at their next safe point |

The files that are written once are created atomically, so of several that want to create one, one does. Three
rules follow:

- Only the runner that created the claim with the highest number works. A second runner of a live job stops.
- A run without a result is alive while its claim file changes. Whoever decides that it is lost watches the
  file by its own monotonic clock; clocks of machines are never compared. A process of the same machine is
  known to have ended at once.
- A job that was run twice commits once: all its runs have the same commit identity, and the owner of the
  table's lease is the id of the job.

`record` has the files as frozen values, `plan` the decisions, `store` the storage, `runner` runs a job,
`steps` its steps, `watch` looks at it from elsewhere, and `command` says how to start the runner.
"""
