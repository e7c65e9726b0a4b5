"""File indexes of data files that are there already: data files stay as they are, descriptions change."""
