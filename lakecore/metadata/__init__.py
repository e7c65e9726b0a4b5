"""This package has the records of the format as frozen values, with their encodings. No IO.

`schema`, `snapshot`, `tag` and `consumer` are JSON files of a table; `manifest/` has data files and the
entries of manifests, which are numpy columns, because a table may have a million of them: a description
becomes an object where it is needed. `commit_message` is what a writer hands to a commit.

`options` is the typed view of the options that several packages obey; the others are declared in modules
`options` beside the code that obeys them. `option_rules/` has what options demand of one another.
`key_order` and `key_numbers` order serialised keys, one at a time and vectorised. A record with a wrong
type, an impossible number or a name that could leave its directory (`file_names`) is refused before it is
used.
"""
