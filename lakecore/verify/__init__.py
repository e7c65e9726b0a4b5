"""This package has the proof before a commit, and fsck: the checks are made from the bytes, and share no code
with what wrote them.

What a proof of each mode shows (docs/proof.md). Append tables: outputs are the live rows of the inputs in
order (keys: some columns, full: all). Merge engine deduplicate without lookups: inputs = outputs + rows
replaced by a later row of their key + deletes that may go (keys: key, sequence, kind; full: all columns).
sampled: as keys, and every column of one row in 16 on a second path that takes nothing from the merge.

Merges that make new rows (first-row, partial-update, aggregation, and every merge that looks rows up):
- keys: the rows merged are those of the inputs (count and digest of key, sequence, kind), in merge order;
  each key has one result, or may have none; sequence number and kind of each result follow from its rows;
  outputs are these results. Retracts ignored, rows expired and rows superseded by a lower level are counted
  apart, each with its reason checked.
- full: also every value. Recomputed from the rows on a second path: deduplicate, first-row, partial-update
  with and without sequence groups, and the functions sum, product (without retracts, not of decimals), max,
  min, bool_and, bool_or, last_value, last_non_null_value, first_value, first_non_null_value, primary-key.
  Values of other functions (collect, listagg, merge_map, nested_update, sketches, bitmaps) and decimal sums
  beyond their precision are taken from the merge; outputs must equal them, and the report names the columns.
- changelogs: the lines that are due are found from levels, rows and results; the changelog read back is them
  (keys: key, sequence, kind; full: values, and that lines left out as equal are equal).
- rows looked up, and rows that deletion vectors mark: at the positions that the merge names lie, live, rows
  with its digest. full: a search of the levels above for all keys that were asked for finds just these.

What decides that comparison is worked out here too: the rules of the table from its raw schema
(`table_rules`), and from the live files whether deletes may go (`drop_licence`). Right before the commit its
files, buckets, rows, changelog files (`commit_check`) and deletion vectors (`vector_check`) are compared with
the proofs.
"""
