"""Spark as an executor of units, and its session. The only package that imports pyspark."""
