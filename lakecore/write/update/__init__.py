"""Changes of rows that are there: new values for columns, and deletes by a condition."""
