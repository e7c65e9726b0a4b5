"""This module starts runs of the DAG for actions, with a line in the audit log, and reads them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakecore_airflow.rights import Rights

__all__ = ["ACTION_DAG", "action_rights", "is_paused", "may_start", "run_conf", "secret_key", "start"]

ACTION_DAG = "lakecore_adhoc"
"""All actions of all lakes are runs of this DAG."""
_EVENT = "lakecore_action"


def may_start(user: Any) -> bool:
    """Return whether a user may start runs of the DAG for actions; pages show them no buttons else."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails

    return bool(
        get_auth_manager().is_authorized_dag(
            method="POST", access_entity=DagAccessEntity.RUN, details=DagDetails(id=ACTION_DAG), user=user
        )
    )


def action_rights(session: Any) -> Rights:
    """Return the rules with which the DAG processor made the DAG for actions. Rules that cannot be read allow
    nothing: Airflow cuts off texts that are longer than `[core] max_templated_field_length`.
    """
    from airflow.models.serialized_dag import SerializedDagModel

    from lakecore.errors import InvalidInputError

    dag = SerializedDagModel.get_dag(ACTION_DAG, session=session)
    if dag is None:
        return Rights(None)
    arguments = dag.task_dict["choose"].op_kwargs if "choose" in dag.task_dict else {}
    if not isinstance(arguments, Mapping):
        return Rights(())
    try:
        return Rights.parse(arguments.get("rights"))
    except InvalidInputError:
        return Rights(())


def start(session: Any, user: Any, conf: Mapping[str, Any]) -> str | None:
    """Start a run and return its id; None while the DAG does not exist."""
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.exceptions import DagNotFound
    from airflow.models.log import Log
    from airflow.utils.types import DagRunTriggeredByType

    try:
        run = trigger_dag(
            ACTION_DAG,
            triggered_by=DagRunTriggeredByType.UI,
            triggering_user_name=user.get_name(),
            conf=dict(conf),
            session=session,
        )
    except DagNotFound:
        return None
    if run is None:
        return None
    extra = json.dumps(dict(conf), sort_keys=True)
    session.add(Log(_EVENT, owner=user.get_name(), extra=extra, dag_id=ACTION_DAG, run_id=run.run_id))
    return str(run.run_id)


def run_conf(session: Any, run_id: str) -> tuple[str, dict[str, Any]] | None:
    """Return the state of an action's run, and what was asked for; None for an unknown run."""
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    run = session.scalar(select(DagRun).where(DagRun.dag_id == ACTION_DAG, DagRun.run_id == run_id))
    return None if run is None else (str(run.state), dict(run.conf or {}))


def is_paused(session: Any) -> bool:
    """Return whether the DAG for actions is paused, so that its runs wait."""
    from airflow.models.dag import DagModel

    model = DagModel.get_current(ACTION_DAG, session=session)
    return model is not None and bool(model.is_paused)


def secret_key() -> str:
    """Return the secret that all API servers of this Airflow share."""
    from airflow.configuration import conf

    return str(conf.get("api", "secret_key"))
