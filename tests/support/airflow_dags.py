"""What Airflow keeps DAGs with; Airflow 3.1 has other names for it than 3.2 and 3.3."""

from __future__ import annotations

try:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization
except ImportError:
    from airflow.models.dagbag import DagBag
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization

__all__ = ["DagBag", "DagSerialization"]
