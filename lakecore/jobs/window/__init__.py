"""This package plans the work of a window: which table comes when, and where the budget ends.

- `order.py` orders tables by need, fair to those that earlier windows left, tables with a busy writer later.
- `budget.py` counts what the work of a window has used up.
"""
