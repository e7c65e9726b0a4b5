"""This package is lakecore for Airflow: operators, sensors, triggers, the hook, DAGs and pages.

Users import from `lakecore_airflow.operators`, `.sensors`, `.triggers`, `.hooks`, `.links`, `.assets`,
`.watch`, `.dags`, `.testing` and `.ui`. Modules import Airflow at the top and the core only inside
functions: a DAG file parses without pyarrow or pyspark.
"""

from lakecore_airflow.old_names import accept_old_names

accept_old_names()
