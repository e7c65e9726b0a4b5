"""This package answers point queries on primary-key tables from local copies of their data files: one key,
or many keys at once, without planning a scan for each.
"""
