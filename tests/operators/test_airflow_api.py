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


def test_a_backfill_that_the_database_kept_is_cancelled_however_often_it_is_locked() -> None:
    kept = (409, '{"detail": "There is already a running backfill for dag d"}')
    listed = (200, '{"backfills": [{"id": 2, "completed_at": null}]}')
    with scripted_server() as script:
        script.answers += [
            LOCKED,
            kept,
            listed,
            LOCKED,
            LOCKED,
            LOCKED,
            kept,
            listed,
            (200, "{}"),
            (201, '{"id": 3}'),
        ]
        assert AirflowApi(script.address).create_backfill({"dag_id": "d"}) == 3
    creation, listing = "POST /api/v2/backfills", "GET /api/v2/backfills?dag_id=d"
    cancellation = "PUT /api/v2/backfills/2/cancel"
    assert script.seen == [
        *(creation, creation, listing, *[cancellation] * 3),
        *(creation, listing, cancellation, creation),
    ]


def test_a_backfill_that_somebody_else_made_is_left_alone() -> None:
    with scripted_server() as script:
        script.answers += [(409, '{"detail": "There is already a running backfill for dag d"}')]
        with pytest.raises(RuntimeError, match="already a running"):
            AirflowApi(script.address).create_backfill({"dag_id": "d"})
    assert script.seen == ["POST /api/v2/backfills"]
