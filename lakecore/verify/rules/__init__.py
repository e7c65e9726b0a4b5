"""The rules that a proof applies, read from the raw schema and shared with no code that is proven.

How keys and sequences compare, which row kinds take something back, what the merge engine does, which rows
have expired, whether deletes may be dropped (`drop_licence`), which files a lookup must ask
(`lookup_files`), and where files of a pick will lie (`layout`). All of it is pure.
"""
