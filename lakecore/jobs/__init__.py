"""One module per job: a frozen `Job` goes in, a frozen `Report` comes out, and both have a JSON form.

Commands, operators and policies build jobs and nothing else. `compact/` is the compaction job, `versions/`
are the jobs on tags, branches and consumers. `runner/` is what jobs share (begin, lease, forecast, report,
many tables at once), `watching/` what sensors and triggers ask.
"""
