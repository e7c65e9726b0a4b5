"""Maintenance: a folder per chore, each `plan.py` (pure) and `apply.py`; reachability, quarantine, ledger."""
