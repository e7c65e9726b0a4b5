"""This module reports the lineage of a finished task to OpenLineage. It needs Airflow's OpenLineage
provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["lineage_of", "lineage_of_many"]


def lineage_of(table: str, lake_conn_id: str, report: Mapping[str, Any]) -> Any:
    """Return an `OperatorLineage`: the table that the task read and wrote, its version and its columns.

    The result is None when the provider is not installed, or when the table no longer exists: lineage never
    fails a task.
    """
    try:
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.event_v2 import InputDataset, OutputDataset
    except ImportError:
        return None
    from lakecore.errors import LakeError

    try:
        namespace, name, facets = _describe(table, lake_conn_id, report)
    except LakeError:
        return None
    written = OutputDataset(namespace, name, facets=facets, outputFacets=_output_facts(report))
    changed = not (report.get("nothing_to_do") or report.get("dry_run"))
    return OperatorLineage(
        inputs=[InputDataset(namespace, name, facets=facets)], outputs=[written] if changed else []
    )


def lineage_of_many(lake_conn_id: str, reports: Sequence[Mapping[str, Any]]) -> Any:
    """Return one `OperatorLineage` of the tables of these reports; None without the provider, or without a
    table that still exists.
    """
    every = [lineage_of(str(report["table"]), lake_conn_id, report) for report in reports]
    lineages = [one for one in every if one is not None]
    if not lineages:
        return None
    merged = lineages[0]
    for one in lineages[1:]:
        merged.inputs.extend(one.inputs)
        merged.outputs.extend(one.outputs)
    return merged


def _describe(table: str, lake_conn_id: str, report: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return namespace and name by OpenLineage's rules for files, and the facets of the dataset."""
    from openlineage.client.facet_v2 import datasource_dataset, symlinks_dataset

    from lakecore.lineage.event import LineageDataset
    from lakecore.lineage.openlineage import dataset_facets
    from lakecore_airflow.hooks import LakeHook

    hook = LakeHook(lake_conn_id)
    catalog = hook.catalog()
    opened = catalog.load_table(table)
    snapshot = report.get("snapshot") or opened._stores.snapshots.latest_id()
    columns = tuple((field.name, str(field.type)) for field in opened.schema.row_type.fields)
    facets = dataset_facets(columns, snapshot) | {
        "dataSource": datasource_dataset.DatasourceDatasetFacet(name=lake_conn_id, uri=catalog.warehouse),
        "symlinks": symlinks_dataset.SymlinksDatasetFacet(
            identifiers=[
                symlinks_dataset.Identifier(namespace=catalog.warehouse, name=opened.name, type="TABLE")
            ]
        ),
    }
    dataset = LineageDataset(table_path=opened.path, branch="", snapshot_id=snapshot, columns=columns)
    return dataset.namespace, dataset.name, facets


def _output_facts(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows and bytes that were written, for tasks that write data."""
    from openlineage.client.facet_v2 import output_statistics_output_dataset

    if not report.get("rows_out"):
        return {}
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=report["rows_out"], size=report.get("bytes_out"), fileCount=report.get("files_out")
    )
    return {"outputStatistics": statistics}
