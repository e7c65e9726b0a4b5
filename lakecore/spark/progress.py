"""This module reads the metrics of sources out of the progress of a streaming query.

Spark 4.2 asks a source in Python for its latest offset and shows it in the progress. It has no other place
for the metrics of such a source: the map `metrics` of a source is for those in Java.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["METRICS", "metrics_of"]

METRICS = "metrics"
"""A source reports an object with its metrics under this key as its latest offset."""


def metrics_of(progress: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the metrics of each source of lakecore in the progress of a query, in their order."""
    sources = [] if progress is None else progress["sources"]
    reported = [_object(source["latestOffset"]) for source in sources]
    return [dict(one[METRICS]) for one in reported if isinstance(one.get(METRICS), Mapping)]


def _object(latest: Any) -> Mapping[str, Any]:
    """Return what a source reported: Spark shows it as JSON, or as the text of JSON."""
    if isinstance(latest, str):
        try:
            latest = json.loads(latest)
        except ValueError:
            return {}
    return latest if isinstance(latest, Mapping) else {}
