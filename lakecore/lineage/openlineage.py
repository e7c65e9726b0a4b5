"""This module sends events of lineage to OpenLineage. It needs the package `openlineage-python`.

It sends where the environment configures the client: `OPENLINEAGE_URL`, `OPENLINEAGE_CONFIG` or variables
that begin with `OPENLINEAGE__TRANSPORT`, and `OPENLINEAGE_DISABLED` is not `true`. Tasks of Airflow are left
to Airflow's own provider, which reports the operators of lakecore.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from typing import Any

from lakecore.lineage.event import LineageDataset, LineageEvent

__all__ = ["dataset_facets", "is_configured", "send"]

_VARIABLES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
_TRANSPORT = "OPENLINEAGE__TRANSPORT"
_NAMESPACE = "OPENLINEAGE_NAMESPACE"
_PRODUCER = "https://pypi.org/project/lakecore"


def is_configured() -> bool:
    """Return whether events are sent."""
    variables = os.environ
    if variables.get("OPENLINEAGE_DISABLED", "").lower() == "true" or "AIRFLOW_CTX_DAG_ID" in variables:
        return False
    has_name = any(name in variables for name in _VARIABLES)
    return (has_name or any(name.startswith(_TRANSPORT) for name in variables)) and _is_installed()


@cache
def _is_installed() -> bool:
    try:
        return find_spec("openlineage.client") is not None
    except ModuleNotFoundError:
        return False


def dataset_facets(columns: Sequence[tuple[str, str]], version: int | None) -> dict[str, Any]:
    """Return the facets of a dataset that are about its columns (name and type) and its version."""
    from openlineage.client.facet_v2 import dataset_version_dataset, schema_dataset

    fields = [schema_dataset.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in columns]
    facets: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)}
    if version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(version))
    return facets


def send(event: LineageEvent) -> None:
    """Send one event of a run that is complete, or that failed. It raises what the client raises."""
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import error_message_run

    inputs = [InputDataset(one.namespace, one.name, facets=_facets_of(one)) for one in event.inputs]
    outputs = [
        OutputDataset(one.namespace, one.name, facets=_facets_of(one), outputFacets=_statistics(event))
        for one in event.outputs
    ]
    facets: dict[str, Any] = {}
    if event.failure is not None:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(event.failure, "python")
    run_event = RunEvent(
        eventTime=datetime.fromtimestamp(event.time_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        producer=_PRODUCER,
        run=Run(runId=event.run_id, facets=facets),
        job=Job(namespace=os.environ.get(_NAMESPACE, "lakecore"), name=event.job),
        eventType=RunState.COMPLETE if event.failure is None else RunState.FAIL,
        inputs=inputs,
        outputs=outputs,
    )
    _client().emit(run_event)


def _facets_of(dataset: LineageDataset) -> dict[str, Any]:
    return dataset_facets(dataset.columns, dataset.snapshot_id)


def _statistics(event: LineageEvent) -> Mapping[str, Any]:
    from openlineage.client.facet_v2 import output_statistics_output_dataset

    if event.rows_written is None or event.rows_written < 0:
        return {}
    facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=event.rows_written)
    return {"outputStatistics": facet}


@cache
def _client() -> Any:
    """Return the client of this process, configured by the environment."""
    from openlineage.client import OpenLineageClient

    return OpenLineageClient()
