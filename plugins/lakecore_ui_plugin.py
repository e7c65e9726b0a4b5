"""Airflow loads the pages of lakecore from here where the package is not installed: a checkout, and the demo.
An installed package brings them by its entry point `airflow.plugins`.
"""

from __future__ import annotations

from operators.ui.plugin import LakecoreUiPlugin

__all__ = ["LakecoreUiPlugin"]
