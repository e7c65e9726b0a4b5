"""This package says what maintenance costs: prices, and budgets of a window."""
