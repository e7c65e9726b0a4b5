"""Airflow loads the pages of lakecore from here where the package is not installed: a checkout, and the demo.
An installed package brings them by its entry point `airflow.plugins`; then this file adds nothing, because
Airflow reports a plugin that it finds twice.
"""

from __future__ import annotations

from importlib.metadata import entry_points

if not any(
    one.value.startswith("lakecore_airflow.ui.plugin:") for one in entry_points(group="airflow.plugins")
):
    from lakecore_airflow.ui.plugin import LakecoreUiPlugin as LakecoreUiPlugin
