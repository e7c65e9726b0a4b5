"""This package has the file that spark-submit, Livy, EMR and Databricks start: it runs a command of lakecore.

It is alone in its folder, because Python looks for modules in the folder of the file that it starts.
"""
