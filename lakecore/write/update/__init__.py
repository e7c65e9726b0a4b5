"""Changes of existing rows: new values for columns, and deletes by a condition."""
