"""Which tests share a process of `pytest -n 2 --dist loadgroup`: their sessions of Spark or their Airflow start once.

It is not xdist's mark `xdist_group`: that one renames tests, and since pytest 9.2 their new names are not used (xdist
3.8 says nothing, and deals out each test by itself).
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

__all__ = ["ALONE", "WholeGroups"]

ALONE = ("tests/dags/", "tests/spark/")


class WholeGroups(LoadScopeScheduling):
    """It gives each group to one process, in the order of the first test of each."""

    def _split_scope(self, nodeid: str) -> str:
        """Return the group of a test: all tests of Airflow, or a module of Spark, which has sessions of its own."""
        return "airflow" if nodeid.startswith("tests/dags/") else nodeid.split("::")[0]
