"""This package moves bytes. It knows neither data files nor tables.

- `file_io` is the protocol. `local`, `memory` and `stores` implement it, `routed` joins several
  storages, and `resolve` makes one from a location and options.
- A file is created atomically or not at all, and the outcome is known or reported as unknown (`publish`).
  On a local disk it is durable before its name can be seen.
- Tables are reached through `confined`: only paths that `allowed_paths` names are touched, and nothing is
  read or changed elsewhere through a symbolic link (`link_checks`, `parent_directory`). `read_only` and
  `table_rights` narrow that for a user.
- Errors of the operating system and of services become lakecore's, with a remedy (`failures`). `tally`
  counts requests and bytes.
"""
