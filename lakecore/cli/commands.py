"""This module has the commands by name, imported one at a time: a command that runs pays for its own
modules only.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

import typer

from lakecore.cli.catalog_of_names import choose_catalog
from lakecore.cli.damage import holding
from lakecore.cli.option_groups import command_of

__all__ = ["HOLDING", "MAINTENANCE", "OTHER_NAMES", "TABLES", "register", "similar_commands"]

TABLES: Mapping[str, str] = MappingProxyType(
    {
        "catalogs": "catalogs.catalogs",
        "create-catalog": "catalogs.catalogs",
        "drop-catalog": "catalogs.catalogs",
        "databases": "tables.inspect",
        "tables": "tables.inspect",
        "describe": "tables.inspect",
        "partitions": "tables.inspect",
        "snapshots": "tables.inspect",
        "files": "tables.files",
        "create": "catalogs.create",
        "alter": "catalogs.alter",
        "create-database": "catalogs.databases",
        "alter-database": "catalogs.databases",
        "drop-database": "catalogs.databases",
        "drop-table": "catalogs.drop",
        "restore-table": "catalogs.drop",
        "dropped-tables": "catalogs.drop",
        "rename-table": "catalogs.drop",
        "init-file-based-privilege": "catalogs.privileges",
        "create-privileged-user": "catalogs.privileges",
        "drop-privileged-user": "catalogs.privileges",
        "grant-privilege-to-user": "catalogs.privileges",
        "revoke-privilege-from-user": "catalogs.privileges",
        "privileges": "catalogs.privileges",
        "write": "tables.write",
        "delete": "tables.delete",
        "update": "tables.row_changes",
        "merge-into": "tables.row_changes",
        "update-columns": "tables.update_columns",
        "read": "tables.read",
        "lookup": "tables.lookup",
        "query-service": "tables.query_service",
        "stream": "tables.stream",
        "compact": "maintenance.compact",
        "compact-database": "maintenance.compact_database",
        "fsck": "maintenance.damage.fsck",
        "rewrite-file-index": "maintenance.rewrite_file_index",
        "survey": "maintenance.survey",
        "health": "maintenance.survey",
        "prepare-spark": "maintenance.prepare_spark",
        "airflow": "airflow",
    }
)
"""A command's name to its module of `lakecore.cli`; its function has the same name with underscores."""

HOLDING = frozenset(
    {
        "describe",
        "partitions",
        "snapshots",
        "files",
        "alter",
        "write",
        "delete",
        "update",
        "merge-into",
        "update-columns",
        "read",
        "lookup",
        "query-service",
        "stream",
    }
)
"""These are commands on one table that are no job of `lakecore.jobs`; they put it on hold when they meet
damage.
"""

MAINTENANCE: Mapping[str, str] = MappingProxyType(
    {
        "expire-snapshots": "maintenance.expire",
        "expire-changelogs": "maintenance.expire",
        "remove-orphan-files": "maintenance.quarantine",
        "purge-files": "maintenance.quarantine",
        "undo": "maintenance.quarantine",
        "runs": "maintenance.quarantine",
        "attempts": "maintenance.attempts",
        "purge-quarantine": "maintenance.quarantine",
        "create-tag": "maintenance.versions.tags",
        "replace-tag": "maintenance.versions.tags",
        "rename-tag": "maintenance.versions.tags",
        "delete-tag": "maintenance.versions.tags",
        "expire-tags": "maintenance.versions.tags",
        "trigger-tag-automatic-creation": "maintenance.versions.auto_tags",
        "create-batch-tags": "maintenance.versions.auto_tags",
        "rollback-to": "maintenance.versions.rollback",
        "rollback-to-as-latest": "maintenance.versions.rollback",
        "reset-consumer": "maintenance.versions.rollback",
        "clear-consumers": "maintenance.versions.rollback",
        "expire-consumers": "maintenance.versions.rollback",
        "expire-partitions": "maintenance.partitions",
        "drop-partition": "maintenance.partitions",
        "mark-partition-done": "maintenance.partitions",
        "create-branch": "maintenance.versions.branches",
        "delete-branch": "maintenance.versions.branches",
        "rename-branch": "maintenance.versions.branches",
        "fast-forward": "maintenance.versions.branches",
        "merge-branch": "maintenance.versions.branches",
        "why": "maintenance.damage.repair",
        "what-if": "maintenance.what_if",
        "hold": "maintenance.damage.holds",
        "release": "maintenance.damage.holds",
        "holds": "maintenance.damage.holds",
        "apply-repair-plan": "maintenance.damage.repair",
        "repair": "maintenance.damage.repair",
        "repair-hints": "maintenance.damage.repair",
        "repair-earliest-snapshot": "maintenance.damage.repair",
        "compact-manifest": "maintenance.damage.repair",
        "rescale": "maintenance.rescale",
        "analyze": "maintenance.analyze",
        "run-job": "maintenance.run_job",
        "migrate-table": "maintenance.migration",
        "migrate-database": "maintenance.migration",
        "copy": "maintenance.migration",
        "create-function": "maintenance.objects",
        "alter-function": "maintenance.objects",
        "drop-function": "maintenance.objects",
        "alter-view-dialect": "maintenance.objects",
        "remove-unexisting-files": "maintenance.damage.unexisting",
        "remove-unexisting-manifests": "maintenance.damage.unexisting",
    }
)
"""The chores have the same, which `--help` lists apart."""

OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "repair-catalog": "repair",
        "rollback": "rollback-to",
        "rollback-to-timestamp": "rollback-to",
        "rollback-to-watermark": "rollback-to",
        "create-tag-from-timestamp": "create-tag",
        "create-tag-from-watermark": "create-tag",
    }
)
"""Procedures of Paimon that are one command here are understood, and left out of `--help`."""


def register(app: typer.Typer, arguments: Iterable[str]) -> None:
    """Add the command that the arguments, without global options, name; all when they name none (help, a
    mistake).
    """
    arguments = list(arguments)
    every = {**TABLES, **MAINTENANCE}
    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    applies_plan = command == "repair" and any(one.partition("=")[0] == "--plan" for one in arguments)
    if command is not None and (command in OTHER_NAMES or applies_plan):
        own = "apply-repair-plan" if applies_plan else OTHER_NAMES[command]
        app.command(command)(_function(own, every[own]))
        return
    for name in (command,) if command in every else every:
        panel = "Maintenance" if name in MAINTENANCE else None
        app.command(name, rich_help_panel=panel)(_function(name, every[name]))


def similar_commands(arguments: Iterable[str]) -> list[str]:
    """Return the commands that are meant perhaps, if the arguments, without global options, name none."""
    every = (*TABLES, *MAINTENANCE, *OTHER_NAMES)
    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    if command is None or command in every:
        return []
    words = set(command.split("-"))
    with_all = [name for name in every if words <= set(name.split("-"))]
    shorter = [name for name in every if set(name.split("-")) < words]  # `create` for `create-table`
    return with_all or shorter or get_close_matches(command, every, n=3, cutoff=0.75)


def _function(name: str, module: str) -> Callable[..., None]:
    function: Callable[..., None] = getattr(
        importlib.import_module(f"lakecore.cli.{module}"), name.replace("-", "_")
    )
    function = holding(name, function) if name in HOLDING else function
    return command_of(function, choose_catalog)
