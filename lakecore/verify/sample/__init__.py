"""This package has the sampled proof: which key ranges and row ranges are compared in all columns, how
they are read, and their comparison.
"""
