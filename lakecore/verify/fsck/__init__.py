"""Is a table whole? From hints to the rows of each file, changing nothing."""
