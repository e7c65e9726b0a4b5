"""Every session of Spark looks for formats in a process: this imports little, and finds the format of lakecore."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pyspark_lakecore
from lakecore.spark.data_source.format import LakecoreSource
from lakecore.spark.data_source.request import FORMAT

LOOKUP = """
import sys
from importlib import import_module
from pyspark import cloudpickle
source = import_module("pyspark_lakecore").DefaultSource
sys.stdout.buffer.write(cloudpickle.dumps((source.name(), source)))
sys.exit(', '.join(name for name in sys.modules if name.split('.')[0] in ('lakecore', 'pyarrow', 'numpy')) or None)
"""


def test_the_lookup_imports_no_table_code() -> None:
    """Spark imports every package `pyspark_…` in a process, and pickles its class for another."""
    done = subprocess.run([sys.executable, "-c", LOOKUP], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    name, source = pickle.loads(done.stdout)
    assert name == FORMAT == LakecoreSource.name()
    assert source is pyspark_lakecore.DefaultSource
    made = source(options={"path": "d.t"})
    assert type(made) is LakecoreSource
    assert made.options == {"path": "d.t"}
