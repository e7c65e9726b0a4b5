"""This package has Airflow operators, sensors, triggers and the connection hook for lakecore.

Modules import Airflow at the top and the core only inside functions: a DAG file parses without pyarrow
or pyspark.
"""
