"""This package has the commands that find damage, repair it, and keep a damaged table as it is."""
