"""Definitions of jobs: each job is a frozen dataclass, and its fields are the parameters of the job.

The package imports no table code, because the command line and Airflow read it when they start: neither
pyarrow nor numpy is loaded. The module that runs a job (`lakecore/jobs/<verb>.py`) takes its definition
from here.

A parameter is declared once, at the field; `parameter.py` says how options of commands, parameters of
operators, keys of policies and keys of JSON follow from it.
"""
