"""This package has checkpoints of streaming queries as Spark stores them, and tags for them."""
