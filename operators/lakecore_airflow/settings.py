"""This module reads the settings of lakecore's DAGs: the table `airflow` of `lakecore.toml`. It imports
nothing of Airflow.

The DAG processor and the workers both parse DAG files, so both must find the same settings. A file beside the
DAG files travels with them; an environment variable of one component does not, and is refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakecore.errors import InvalidInputError
from lakecore.jobs.window.blackout import BlackoutCalendar
from lakecore_airflow.rights import Rights

__all__ = [
    "COMMON",
    "DEFAULT_CONNECTION",
    "DagSettings",
    "SettingsError",
    "dag_id_of",
    "find_settings",
    "load_settings",
    "parse_settings",
    "settings_file",
]

DEFAULT_CONNECTION = "lake_default"

COMMON = ("blackouts", "pool", "rights", "submit")
"""These settings may be those of all DAGs, in `[airflow]` itself."""

_FILE_NAME = "lakecore.toml"
_FORMER = {
    "LAKECORE_NIGHTLY_CRON": ("nightly", "schedule"),
    "LAKECORE_PARTITION_CRON": ("partition", "schedule"),
    "LAKECORE_BATCH_TAGS_CRON": ("batch_tags", "schedule"),
    "LAKECORE_MAINTENANCE_CRON": ("maintenance", "schedule"),
    "LAKECORE_SNAPSHOT_CRON": ("on_snapshot", "schedule"),
    "LAKECORE_WATCH_CRON": ("on_asset", "schedule"),
    "LAKECORE_POKE_SECONDS": ("on_asset", "poke_seconds"),
    "LAKECORE_WATCH": ("on_asset", "tables"),
    "LAKECORE_POLICY": ("maintenance", "policy"),
}
"""The variables that earlier releases read: the DAG and the setting that take their place."""


class SettingsError(ValueError):
    """The settings cannot be used. Airflow shows the message as an import error of the DAG file."""


@dataclass(frozen=True, slots=True)
class DagSettings:
    """These are the settings of all DAGs."""

    connections: Sequence[str] = (DEFAULT_CONNECTION,)
    """Connections of the type `lakecore`; every DAG is made once for each."""
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """This is the table of each DAG, by its short name: `nightly`, …"""
    common: Mapping[str, Any] = field(default_factory=dict)
    """These are settings of all DAGs that have them (`COMMON`); the table of a DAG comes first."""

    def of(self, name: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of one DAG: `defaults`, and what the file says instead, for all or for this.

        Raises SettingsError for a key that is not in `defaults`.
        """
        values = self.values.get(name, {})
        strange = sorted(set(values) - set(defaults))
        if strange:
            raise SettingsError(
                f"airflow.{name} has no setting {strange[0]!r}; it has {', '.join(sorted(defaults))}"
            )
        common = {key: value for key, value in self.common.items() if key in defaults}
        merged = {**defaults, **common, **values}
        if "blackouts" in merged:
            merged["blackouts"] = _blackouts(merged["blackouts"], name)
        if "rights" in merged:
            _check_rights(merged["rights"], name)
        return merged


def dag_id_of(name: str, connection: str) -> str:
    """Return the id of a DAG by its short name: `lakecore_nightly`, and for another connection than
    `lake_default` also that.
    """
    suffix = "" if connection == DEFAULT_CONNECTION else f"__{connection}"
    return f"lakecore_{name}{suffix}"


def find_settings(beside: str | Path | None, names: Sequence[str], environ: Mapping[str, str]) -> DagSettings:
    """Read the settings: `$LAKECORE_CONFIG`, else `lakecore.toml` in the folder of the DAG file `beside`, in
    `$AIRFLOW_HOME`, or in `~/.config/lakecore`. Without a file everything has its default.

    `names`: the short names of the DAGs. Raises SettingsError for a file that cannot be read or used, and for
    a variable of the environment that earlier releases read.
    """
    for variable, (name, key) in _FORMER.items():
        if variable in environ:
            raise SettingsError(
                f"{variable} is not read any more, because the DAG processor and the workers may have "
                f"different environments: set {key} in the table [airflow.{name}] of {_FILE_NAME}"
            )
    path = settings_file(beside, environ)
    return DagSettings() if path is None else parse_settings(load_settings(path), names, str(path))


def settings_file(beside: str | Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the file that the DAG file `beside` reads; None if there is none. The file of
    `$LAKECORE_CONFIG` is returned although it may not exist.
    """
    for path in _places(beside, environ):
        if "LAKECORE_CONFIG" in environ or path.is_file():
            return path
    return None


def parse_settings(raw: Mapping[str, Any], names: Sequence[str], where: str) -> DagSettings:
    """Return the settings of a parsed file; tables other than `airflow` are not looked at. Raises
    SettingsError.
    """
    section = raw.get("airflow", {})
    if not isinstance(section, Mapping):
        raise SettingsError(f"{where}: airflow is {section!r}; make it a table: [airflow]")
    strange = sorted(set(section) - {"connections", *COMMON, *names})
    if strange:
        raise SettingsError(
            f"{where}: [airflow] has no setting {strange[0]!r}; it has connections, {', '.join(COMMON)} and "
            f"the tables {', '.join(names)}"
        )
    connections = section.get("connections", [DEFAULT_CONNECTION])
    if (
        not isinstance(connections, list)
        or not connections
        or not all(isinstance(c, str) for c in connections)
    ):
        raise SettingsError(f"{where}: connections is {connections!r}; write a list of connection ids")
    values = {name: section[name] for name in names if name in section}
    for name, table in values.items():
        if not isinstance(table, Mapping):
            raise SettingsError(f"{where}: airflow.{name} is {table!r}; make it a table: [airflow.{name}]")
    common = {name: section[name] for name in COMMON if name in section}
    return DagSettings(tuple(connections), values, common)


def _blackouts(raw: Any, name: str) -> list[dict[str, str]]:
    """Return the black-outs as texts: TOML also has dates. Raises SettingsError."""
    try:
        BlackoutCalendar.parse(raw)
    except InvalidInputError as err:
        raise SettingsError(f"airflow.{name}: {err}") from err
    return [{key: str(value) for key, value in one.items()} for one in raw]


def _check_rights(raw: Any, name: str) -> None:
    """Check who may act. Raises SettingsError."""
    try:
        Rights.parse(raw)
    except InvalidInputError as err:
        raise SettingsError(f"airflow.{name}: {err}") from err


def _places(beside: str | Path | None, environ: Mapping[str, str]) -> list[Path]:
    if "LAKECORE_CONFIG" in environ:
        return [Path(environ["LAKECORE_CONFIG"])]
    folders = [] if beside is None else [Path(beside).parent]
    if environ.get("AIRFLOW_HOME"):
        folders.append(Path(environ["AIRFLOW_HOME"]))
    if environ.get("HOME"):
        folders.append(Path(environ["HOME"]) / ".config" / "lakecore")
    return [folder / _FILE_NAME for folder in folders]


def load_settings(path: Path) -> Mapping[str, Any]:
    """Return the contents of a settings file. Raises SettingsError for one that cannot be read."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as err:
        raise SettingsError(f"{path} cannot be read: {err.strerror}") from err
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise SettingsError(f"{path} is no TOML: {err}") from err
