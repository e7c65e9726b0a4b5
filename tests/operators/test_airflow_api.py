"""The client of Airflow's REST API that the demo and the tests use."""

from __future__ import annotations

import pytest

from tests.support.scripted_server import scripted_server
from tools.airflow_api import AirflowApi, BusyError

LOCKED = (500, '{"detail": {"reason": "Database error"}}')
BUSY = (503, '{"detail": "busy"}')
CREATED = (201, '{"connection_id": "c"}')
PATH = "/api/v2/connections"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_the_database_refused_is_sent_again(method: str) -> None:
    with scripted_server() as script:
        script.answers += [LOCKED, LOCKED, CREATED]
        assert AirflowApi(script.address).call(method, PATH, {}) == {"connection_id": "c"}
    assert script.seen == [f"{method} {PATH}"] * 3


def test_a_database_that_stays_locked_is_an_error() -> None:
    with scripted_server() as script:
        script.answers += [LOCKED] * 4
        with pytest.raises(BusyError, match="Database error"):
            AirflowApi(script.address).call("POST", PATH, {})
    assert script.seen == [f"POST {PATH}"] * 3


def test_a_busy_answer_repeats_only_what_cannot_take_effect_twice() -> None:
    with scripted_server() as script:
        script.answers += [BUSY, CREATED, BUSY, CREATED]
        api = AirflowApi(script.address)
        assert api.call("GET", PATH) == {"connection_id": "c"}
        with pytest.raises(BusyError):
            api.call("POST", "/api/v2/pools", {})
    assert script.seen == [f"GET {PATH}"] * 2 + ["POST /api/v2/pools"]
