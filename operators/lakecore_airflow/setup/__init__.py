"""This package has what `lakecore airflow init` does: it makes the connection, the pool, the settings and the
DAG file with which Airflow maintains a lake.

`plan` decides, from what there is, what is to be made or refused; `apply` asks Airflow's own command for what
there is, and makes it. No module imports Airflow.
"""

from __future__ import annotations

from lakecore_airflow.setup.apply import init
from lakecore_airflow.setup.plan import InitRequest, Step

__all__ = ["InitRequest", "Step", "init"]
