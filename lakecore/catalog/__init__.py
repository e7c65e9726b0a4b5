"""This package finds, creates and alters databases and tables by name, with the checks that the format
requires.

- `catalog` is the protocol that every kind of catalog fulfils, and `registry` opens one by the option
  `metastore`. `filesystem` and `warehouse/` have catalogs that are directories, `jdbc/`, `hive/` and `rest/`
  the others; `remote/` is what catalogs with a server share. `configured/` has the catalogs that
  `lakecore.toml` names.
- What a schema may be is decided by pure modules: `definition` and `validation` for new tables, `alter` and
  `type_change` for changes, `option_rules`, `map_rules` and others for options. A table that Paimon would
  refuse to open is not created. An option of a catalog that nothing here obeys is refused by name.
- A name never leaves the warehouse (`names`). `privileges/` guards each operation of a user. `partitions/`
  and `objects/` have what catalogs know beside tables: partitions, views and functions.

A table is opened by listing its schemas and reading the newest one.
"""
