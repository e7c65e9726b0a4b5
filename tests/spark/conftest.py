"""Spark for tests: a home of its own, because a local cluster writes its executors' logs there."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakecore.spark.executor import SparkExecutor
from tests.support.spark_classes import SHORT_LIVED, short_lived


@pytest.fixture(scope="package", autouse=True)
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """pip's Spark, with a `work` folder outside site-packages, and defaults for tests.

    They are properties of the JVM of a driver: with a folder `conf` it would not use the class archive.
    """
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    installed = Path(spec.submodule_search_locations[0])
    home = tmp_path_factory.mktemp("spark")
    for name in ("bin", "jars", "python"):
        if (installed / name).exists():
            (home / name).symlink_to(installed / name)
    # Spark's own are for JVMs that live for hours and for clusters: 200 tasks a shuffle
    options = f'{short_lived()} "-Dspark.executor.extraJavaOptions={short_lived()}" -Dspark.sql.shuffle.partitions=4'
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LAUNCHER_OPTS", SHORT_LIVED)
        patch.setenv("SPARK_SUBMIT_OPTS", options)
        patch.setenv("SPARK_HOME", str(home))
        yield home


@pytest.fixture(scope="module", params=["local[2]", "local-cluster[2,1,1024]"])
def spark(request: pytest.FixtureRequest) -> Iterator[SparkExecutor]:
    """An executor on two cores: threads of the driver, then two worker processes."""
    with SparkExecutor(request.param) as executor:
        yield executor


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session as users have it: nothing of lakecore is set or registered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        root = str(Path(__file__).parents[2])
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))))
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.sql.session.timeZone", "UTC").config(
            "spark.sql.python.filterPushdown.enabled", "true"
        )
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark-tables")))
        found = builder.getOrCreate()
        found.sparkContext.setLogLevel("OFF")
        yield found
        found.stop()
