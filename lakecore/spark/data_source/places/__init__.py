"""This package assigns buckets, and partitions where keys move, in tasks of Spark, before rows come to their
writers. Beside these are `arrow_tasks`, which runs such tasks for columns of any name, and `catalog_table`,
the place of a table that Spark's own catalog has.
"""
