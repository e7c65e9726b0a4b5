"""This module has the options of a catalog that name its user."""

from __future__ import annotations

from lakecore.options import Option

__all__ = ["ANONYMOUS", "PASSWORD", "USER"]

ANONYMOUS = "anonymous"
"""This is Paimon's user for whoever names none, and the password of that user."""
USER = Option("user", str, ANONYMOUS, "The user of a warehouse with privileges.")
PASSWORD = Option("password", str, ANONYMOUS, "The password of that user.")
