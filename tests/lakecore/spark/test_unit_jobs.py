"""A unit without a result has an error with Spark's reason, and a cause that fits it."""

from __future__ import annotations

import pytest

from lakecore.errors import InvalidInputError, UnavailableError
from lakecore.spark.unit_jobs import UnitJob, UnitJobs


def results(failure: Exception) -> list[object]:
    def run(*_: object) -> None:
        raise failure

    return list(UnitJobs("t").results(UnitJob([b"", b""], run, lambda *_: None)))


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("SparkContext has been shutdown\nat org.apache.spark", "is no Spark master"),
        ("Job 3 cancelled because SparkContext was shut down", "is no Spark master"),
        ("Cannot call methods on a stopped SparkContext.", "is no Spark master"),
        ("Job aborted due to stage failure: ExecutorLostFailure", "lack of memory, or its executor lost"),
    ],
)
def test_what_spark_lost_is_an_error_of_each_unit(reason: str, cause: str) -> None:
    errors = results(RuntimeError(reason))
    assert [type(one) for one in errors] == [UnavailableError, UnavailableError]
    for number, error in enumerate(errors, 1):
        pattern = (
            rf"no result for unit {number} of 2: {reason.splitlines()[0]}; .*{cause}.*: look at Spark's logs"
        )
        with pytest.raises(UnavailableError, match=pattern):
            raise error


def test_an_error_of_lakecore_is_the_result() -> None:
    failure = InvalidInputError("n is no number")
    assert results(failure) == [failure, failure]
