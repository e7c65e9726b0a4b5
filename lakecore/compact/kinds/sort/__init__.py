"""This package sorts the rows of append tables by columns, or along a curve through them.

All files of a partition become new ones, in a COMPACT snapshot that removes just the files that were read:
rows that others insert meanwhile stay where they are, and a partition whose files another commit took away is
planned again. Memory: a unit sorts in a buffer of fixed size and spills to local disk. Cost: a partition that
is cut into n units is decoded up to n times, so that rows need not travel between them; files whose
statistics say that they have no rows of a unit are left out.
"""
