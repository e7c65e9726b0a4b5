"""From names to tables: databases, tables, and changes of schemas, with the checks that the format asks
for.
"""
