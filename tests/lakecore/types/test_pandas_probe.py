from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from lakecore.types.pandas_probe import skip_pandas
skip_pandas()
import pyarrow as pa
table = pa.table({"a": [1, None]})
assert "pandas" not in sys.modules
assert table.to_pandas()["a"].isna().tolist() == [False, True]
import pandas
assert pa.Table.from_pandas(pandas.DataFrame({"a": [1.0, None]}))["a"].null_count == 1
skip_pandas()
assert pa.array(pandas.Series([1.0, None])).null_count == 1
"""


def test_pandas_stays_out_until_it_is_asked_for() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
