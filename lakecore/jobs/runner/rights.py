"""This module asks what the user of a catalog may do, for jobs and records of more than one table."""

from __future__ import annotations

from lakecore.catalog.privileges.grants import ROOT, Grants
from lakecore.catalog.privileges.manager import Privileges
from lakecore.jobs.runner.lake import Lake

__all__ = ["grants_of"]


def grants_of(lake: Lake) -> Grants:
    """Return what the user may do now; in a catalog without users that is everything. Raises PrivilegeError
    for a user who is not known any more.
    """
    privileges = getattr(lake, "privileges", None)
    return privileges.grants() if isinstance(privileges, Privileges) else Grants(ROOT, {})
