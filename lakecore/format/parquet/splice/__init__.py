"""Row groups of parquet files are copied into a new file byte by byte: only the footer, and the offsets in it
and in the page indexes, are made anew.
"""
