"""This package has jobs on views and functions, which are Paimon's procedures."""
