"""This package is the command line: it parses arguments, calls the core and prints what it returns. It
holds no logic of the core.

`commands` has the names of all commands; a command that runs imports its own module only (`catalogs/`,
`tables/`, `maintenance/`). Options of jobs come from the jobs themselves (`job_options`). `output` prints
tables for people and JSON for programs, and `main` turns errors into one line and an exit code: 0 for
success, 1 for an error, 2 for findings and for a table on hold.
"""
