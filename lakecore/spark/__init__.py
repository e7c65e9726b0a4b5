"""This package has Spark as an executor of units, and its session. It is the only package that imports
pyspark.
"""
