"""This package has what a catalog names beside tables: views and functions, as Paimon has them."""
