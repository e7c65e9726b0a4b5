"""A worker of Spark leaves what it has imported out of its garbage collections."""

from __future__ import annotations

import gc

import pytest
from pyspark import TaskContext

from lakecore.spark.data_source import worker_memory


def test_objects_are_frozen_once_and_in_a_task_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(True))
    worker_memory._freeze.cache_clear()

    worker_memory.skip_in_collections()
    assert not calls, "the process of a user is no worker of Spark"

    monkeypatch.setattr(TaskContext, "_taskContext", object())
    worker_memory.skip_in_collections()
    worker_memory.skip_in_collections()
    assert calls == [True]
    worker_memory._freeze.cache_clear()
