"""Options that hold for one run only."""

from __future__ import annotations

import pytest

from lakecore.errors import InvalidInputError
from lakecore.metadata.option_rules.run_options import with_run_options
from tests.support.lake import key_table, memory_catalog


@pytest.mark.parametrize(("own", "given"), [("1", "1"), ("1", "4"), ("4", "1"), ("-1", "-1"), ("-2", "-2")])
def test_a_run_may_change_the_number_of_buckets(own: str, given: str) -> None:
    schema = key_table(memory_catalog(f"run-{own}"), bucket=own).schema
    assert with_run_options(schema, {"bucket": given}).options["bucket"] == given


@pytest.mark.parametrize(("own", "given"), [("1", "-1"), ("-1", "1"), ("-2", "1"), ("1", "-2"), ("-1", "-2")])
def test_a_run_does_not_change_the_bucket_mode(own: str, given: str) -> None:
    schema = key_table(memory_catalog(f"run-mode-{own}"), bucket=own).schema
    with pytest.raises(InvalidInputError, match="may change the number of buckets, but not the bucket mode"):
        with_run_options(schema, {"bucket": given})
