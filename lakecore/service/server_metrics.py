"""This module counts what a query server does, and writes the counts in the text format of Prometheus.

Source of the format: Prometheus' documentation, "Text-based format", version 0.0.4.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

from lakecore.data_class import dataclass

__all__ = [
    "BOUNDS",
    "Metric",
    "ServerFigures",
    "ServerMetrics",
    "figures_metrics",
    "joined_metrics",
    "label",
    "prometheus_text",
]

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""These are the upper bounds of the buckets of the histogram of latencies, in seconds; the last has none."""


@dataclass(frozen=True, slots=True)
class ServerFigures:
    """These are the counts of a server since it was made."""

    requests: int = 0
    """It is the number of requests that were answered, failures among them."""
    failures: int = 0
    keys: int = 0
    hits: int = 0
    """It is the number of keys that had a row."""
    seconds: float = 0.0
    """It is the sum of the times from the complete request to its answer."""
    latencies: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    """These are the requests by latency, for each of `BOUNDS`, and those above."""
    connections: int = 0
    """It is the number of connections that are open now."""
    refused_connections: int = 0
    """It is the number of connections above the limit."""
    closed_connections: int = 0
    """It is the number of connections that the server closed because of what they sent, or did not send."""


class ServerMetrics:
    """It counts for one server. Several threads may use it; a count takes about a microsecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = self._failures = self._keys = self._hits = 0
        self._connections = dict.fromkeys(("connections", "refused_connections", "closed_connections"), 0)
        self._seconds = 0.0
        self._latencies = [0] * (len(BOUNDS) + 1)

    def count_answer(self, seconds: float, keys: int, hits: int) -> None:
        """Count a request that was answered with rows."""
        with self._lock:
            self._requests += 1
            self._keys += keys
            self._hits += hits
            self._seconds += seconds
            self._latencies[bisect_left(BOUNDS, seconds)] += 1

    def count_failure(self, seconds: float) -> None:
        """Count a request that failed."""
        with self._lock:
            self._requests += 1
            self._failures += 1
            self._seconds += seconds
            self._latencies[bisect_left(BOUNDS, seconds)] += 1

    def count_connection(self, change: int) -> None:
        """Count a connection that opened (1) or ended (-1)."""
        with self._lock:
            self._connections["connections"] += change

    def count_refusal(self) -> None:
        """Count a connection above the limit."""
        with self._lock:
            self._connections["refused_connections"] += 1

    def count_closed_by_server(self) -> None:
        """Count a connection that the server closed because of what came over it, or did not come."""
        with self._lock:
            self._connections["closed_connections"] += 1

    def figures(self) -> ServerFigures:
        """Return the counts as they are now."""
        with self._lock:
            return ServerFigures(
                requests=self._requests,
                failures=self._failures,
                keys=self._keys,
                hits=self._hits,
                **self._connections,
                seconds=self._seconds,
                latencies=tuple(self._latencies),
            )


@dataclass(frozen=True, slots=True)
class Metric:
    """This is one metric: its samples are pairs of labels and a value."""

    name: str
    kind: str
    """It is `counter`, `gauge` or `histogram`."""
    help: str
    samples: tuple[tuple[str, float], ...]
    """The first part of a sample is what follows the name: a suffix and labels in braces, or nothing."""


def figures_metrics(figures: ServerFigures) -> tuple[Metric, ...]:
    """Return the figures of a server as metrics."""
    plain = (
        ("requests_total", "counter", "Requests that were answered, failures among them.", figures.requests),
        ("failures_total", "counter", "Requests that failed.", figures.failures),
        ("keys_total", "counter", "Keys that were looked up.", figures.keys),
        ("found_total", "counter", "Keys that had a row.", figures.hits),
        ("connections", "gauge", "Connections that are open.", figures.connections),
        (
            "refused_connections_total",
            "counter",
            "Connections above the limit.",
            figures.refused_connections,
        ),
        (
            "closed_connections_total",
            "counter",
            "Connections that the server closed because of invalid requests.",
            figures.closed_connections,
        ),
    )
    out = [Metric(name, kind, text, (("", value),)) for name, kind, text, value in plain]
    out.append(
        Metric(
            "request_seconds",
            "histogram",
            "Time from the complete request to its answer.",
            tuple(_histogram(figures)),
        )
    )
    return tuple(out)


def joined_metrics(metrics: Mapping[str, tuple[Metric, ...]]) -> tuple[Metric, ...]:
    """Return metrics of several servers as one metric a name.

    `metrics` has those of each server, by a label that their samples get.
    """
    joined: dict[str, Metric] = {}
    for text, several in metrics.items():
        for one in several:
            samples = tuple((_with_labels(suffix, text), value) for suffix, value in one.samples)
            earlier = joined[one.name].samples if one.name in joined else ()
            joined[one.name] = Metric(one.name, one.kind, one.help, (*earlier, *samples))
    return tuple(joined.values())


def prometheus_text(metrics: Iterable[Metric], labels: str = "") -> str:
    """Return the metrics as text. `labels` are labels of every sample, such as `table="d.t"`."""
    lines: list[str] = []
    for metric in metrics:
        name = f"lakecore_query_{metric.name}"
        lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}"]
        lines += [
            f"{name}{_with_labels(suffix, labels)} {_number(value)}" for suffix, value in metric.samples
        ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def label(name: str, value: str) -> str:
    """Return a label; quotes, backslashes and line ends of the value are escaped."""
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{escaped}"'


def _with_labels(suffix: str, labels: str) -> str:
    part, _, inside = suffix.partition("{")
    both = ",".join(text for text in (labels, inside.removesuffix("}")) if text)
    return f"{part}{{{both}}}" if both else part


def _histogram(figures: ServerFigures) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), figures.latencies, strict=True):
        total += count
        yield f'_bucket{{le="{bound}"}}', total
    yield "_sum", figures.seconds
    yield "_count", total
