"""The operator that makes file indexes, on a table that Java Paimon wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakecore_airflow.airflow_names import AirflowFailException
from lakecore_airflow.operators.rewrite_file_index import RewriteFileIndexOperator
from tests.operators.conftest import context
from tests.support.golden import GoldenTable

TABLE = "g1.a_pk_dedup_l0"


def test_indexes_are_made_once(lake: Path, golden: Callable[[str], GoldenTable]) -> None:
    golden(TABLE).copy_to(lake)
    options = {"file-index.bloom-filter.columns": "k", "file-index.bloom-filter.k.items": "100"}

    def operator(**other: object) -> RewriteFileIndexOperator:
        arguments = {"task_id": "t", "table": TABLE, "options": options, "engine": "local"} | other
        return RewriteFileIndexOperator(**arguments)

    look = operator(dry_run=True).execute(context())
    assert (look["files"], look["snapshot"]) == (0, None)
    done = operator().execute(context())
    assert len(json.dumps(done)) < 10_000
    assert done["files"] == done["planned"] == look["planned"] > 0
    assert all(found["files_lacking"] == 0 for found in done["coverage"])
    assert operator().execute(context(run_id="run2"))["nothing_to_do"]
    with pytest.raises(AirflowFailException, match="there is no index type"):
        operator(options={"file-index.magic.columns": "k"}).execute(context())
