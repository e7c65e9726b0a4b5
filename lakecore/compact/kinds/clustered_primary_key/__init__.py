"""This package compacts tables whose files are sorted by other columns than the key (option
`pk-clustering-override`).

Files of level 0 are in key order, as everywhere. All others lie on level 1, each in the order of
`clustering.columns`; deletion vectors (or merge engine first-row) leave one live row a key there. So there
are two kinds of work. Level 0 is merged by key, its rows are looked up in all files above, which are marked
where they had a row of the key, and written in the new order. And files above, whose rows replace no other,
are sorted together, without deletes: these have done their work when they marked what was before them. Each
is proven and committed by itself, level 0 first.
"""
