"""A feature that an older PySpark lacks is refused in words, or done in another way."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

from lakecore.errors import UnsupportedError
from lakecore.spark import register, versions
from lakecore.spark.executor import SparkExecutor


@pytest.mark.parametrize(
    ("text", "sources", "sink", "limits"),
    [
        ("3.5.0", False, False, False),
        ("4.0.1.dev0", True, False, False),
        ("4.1.0", True, True, False),
        ("4.2.0", True, True, True),
        ("4.10.0rc1", True, True, True),
    ],
)
def test_features_by_version(
    monkeypatch: pytest.MonkeyPatch, text: str, sources: bool, sink: bool, limits: bool
) -> None:
    monkeypatch.setattr(pyspark, "__version__", text)
    features = (versions.DATA_SOURCES, versions.STREAM_SINK, versions.STREAM_LIMITS)
    assert tuple(map(versions.has_feature, features)) == (sources, sink, limits)


def test_a_lack_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.3")
    session: Any = None  # nothing of it is used
    with pytest.raises(
        UnsupportedError, match=r"PySpark 3\.5\.3 has no data sources.* 4\.0; read with Table"
    ):
        register(session)


def test_a_version_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.4.4")
    with pytest.raises(UnsupportedError, match=r"PySpark 3\.4\.4 is too old; install PySpark 3\.5 or later"):
        next(SparkExecutor("local[1]").run(abs, [-1]))


def test_a_job_that_starts_late_is_cancelled_without_future_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark 3.5 cancels jobs that its scheduler has: a job that it gets later is cancelled when it is there."""
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    cancelled, asked = threading.Event(), 0

    def cancel(group: str) -> None:
        nonlocal asked
        asked += 1
        if asked == 3:  # the job is with the scheduler now
            cancelled.set()

    spark: Any = SimpleNamespace(_jsc=object(), cancelJobGroup=cancel)
    job = threading.Thread(target=cancelled.wait)
    job.start()
    versions.cancel_group(spark, "g", job)
    job.join(30)
    assert not job.is_alive()
