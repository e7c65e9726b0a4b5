"""Spark for tests: a home of its own, because a local cluster writes its executors' logs there."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakecore.spark.executor import SparkExecutor


@pytest.fixture(scope="package", autouse=True)
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """pip's Spark, with a `work` folder outside site-packages."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    installed = Path(spec.submodule_search_locations[0])
    home = tmp_path_factory.mktemp("spark")
    for name in ("bin", "jars", "python"):
        if (installed / name).exists():
            (home / name).symlink_to(installed / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home))
        yield home


@pytest.fixture(scope="module", params=["local[2]", "local-cluster[2,1,1024]"])
def spark(request: pytest.FixtureRequest) -> Iterator[SparkExecutor]:
    """An executor on two cores: threads of the driver, then two worker processes."""
    with SparkExecutor(request.param) as executor:
        yield executor
