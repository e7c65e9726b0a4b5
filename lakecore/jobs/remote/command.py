"""This module says how a runner is started on another machine: its arguments, and the environment that it
needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, is_secret
from lakecore.jobs.remote.record import check_id, check_submission

__all__ = ["RemoteCommand", "driver_file", "remote_command"]

_CATALOG = "remote"
_OPTION = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCommand:
    """This is how a runner is started."""

    job_id: str
    arguments: tuple[str, ...]
    """These are the arguments of the driver file (`driver_file`), for services that take a Python file with
    arguments.
    """
    environment: Mapping[str, str] = field(default_factory=dict)
    """The process needs these variables; they have no secrets."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """The process also needs these variables, by the options whose values they are: they are secrets, so set
    them where the runner runs.
    """

    @property
    def command_line(self) -> tuple[str, ...]:
        """Return the command line, for containers in which the command `lakecore` is installed."""
        return ("lakecore", *self.arguments)


def remote_command(
    job_id: str,
    warehouse: str,
    options: Mapping[str, str] | None = None,
    catalog: str | None = None,
    submission: str = "",
) -> RemoteCommand:
    """Return how the runner of a job is started.

    Without `options` the path of the job names its warehouse. The options of a catalog become variables of a
    catalog `remote`, of which the secrets are only named. `catalog` is the name of a catalog that
    `lakecore.toml` has there, which needs neither. Raises InvalidInputError for an option that has no
    variable.
    """
    check_id(job_id)
    name = ("--submission", check_submission(submission)) if submission else ()
    if catalog:
        return RemoteCommand(job_id=job_id, arguments=("--catalog", catalog, "run-job", job_id, *name))
    if not options:
        path = f"{warehouse.rstrip('/')}/.lakecore/jobs/{job_id}"
        return RemoteCommand(job_id=job_id, arguments=("run-job", path, *name))
    variables = {_variable("warehouse"): warehouse}
    variables |= {_variable(key): value for key, value in options.items() if not is_secret(key)}
    return RemoteCommand(
        job_id=job_id,
        arguments=("--catalog", _CATALOG, "run-job", job_id, *name),
        environment=variables,
        secrets={_variable(key): key for key in options if is_secret(key)},
    )


def driver_file() -> str:
    """Return the path of the file that is submitted to Spark with the arguments of a `RemoteCommand`."""
    return str(Path(__file__).parents[2] / "cli" / "spark_driver" / "driver.py")


def _variable(option: str) -> str:
    """Return the variable of an option of the catalog `remote`."""
    if not _OPTION.fullmatch(option):
        raise InvalidInputError(
            f"option {option!r} cannot be given by the environment; give the name of a catalog in "
            "lakecore.toml of the remote machine instead"
        )
    text = option.replace(".", "__").replace("-", "_").upper()
    return f"LAKECORE_CATALOG__{_CATALOG.upper()}__{text}"
