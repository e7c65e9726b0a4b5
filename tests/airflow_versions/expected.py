"""This module names the tests that run with each Airflow, and those that are left out, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["ENVIRONMENTS", "FOLDERS", "LEFT_OUT"]

FOLDERS = ("tests/operators", "tests/dags")

ENVIRONMENTS: Mapping[str, Sequence[tuple[str, str]]] = {
    "3.1": [
        (
            "tests/operators/test_hooks.py::test_a_connection_opens_a_jdbc_catalog",
            "Airflow 3.1 is installed with SQLAlchemy 1.4, and JDBC catalogs need SQLAlchemy 2",
        ),
        (
            "tests/dags/test_real_connection.py::test_the_connection_form_has_our_fields",
            "Airflow 3.1 reads no forms from the description of a provider: the connection has the general fields",
        ),
        *(
            (
                test,
                "on SQLite, Airflow 3.1 fails to make a backfill while its scheduler writes, and keeps half of it",
            )
            for test in (
                "tests/dags/test_real_compaction.py::test_backfill_compacts_past_partitions_and_a_second_one_changes_nothing",
                "tests/dags/test_real_maintenance.py::test_tags_of_past_days_are_backfilled",
            )
        ),
    ],
    "3.2": [],
}
"""The versions, and what is left out with one of them only. 3.3 is the one of `.venv`, whose tests are `make test`."""

LEFT_OUT: Sequence[tuple[str, str]] = [
    ("tests/operators/test_watch.py", "watchers of assets store their positions, which needs Airflow 3.3"),
    (
        "tests/operators/test_asset_state.py",
        "states what needs Airflow 3.3, and how earlier releases refuse it",
    ),
    (
        "tests/operators/test_import_home.py",
        "the old names were in releases of lakecore for Airflow 3.3 only",
    ),
    (
        "tests/dags/test_real_maintenance.py::test_a_tag_and_finished_partitions_are_waited_for",
        "its last step starts a run for each key of partitions, which needs Airflow 3.3",
    ),
    (
        "tests/dags/test_real_maintenance.py::test_new_snapshots_of_watched_tables_start_runs",
        "watchers of assets store their positions, which needs Airflow 3.3",
    ),
    ("tests/dags/test_real_submit.py", "the environments lack Airflow's Spark provider"),
    (
        "tests/operators/test_submit.py::test_secrets_of_the_connection_are_in_no_argument_and_no_file",
        "the environments lack Airflow's Spark provider",
    ),
    (
        "tests/operators/test_submit.py::test_what_has_no_effect_or_cannot_work_is_refused_by_name",
        "the environments lack Airflow's Spark provider",
    ),
    (
        "tests/operators/test_hooks.py::test_the_test_button_asks_the_server_of_spark_connect",
        "the environments lack the client of Spark Connect",
    ),
    (
        "tests/operators/test_connection_button.py",
        "the environments lack the libraries of Hive and REST catalogs and of most stores",
    ),
    ("tests/dags/test_real_catalogs.py", "the environments lack the driver of PostgreSQL or SQLAlchemy 2"),
    ("tests/dags/test_real_old_names.py", "the old names were in releases of lakecore for Airflow 3.3 only"),
]
