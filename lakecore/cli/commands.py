"""The commands by name, imported one at a time: a command that runs pays for its own modules only."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import typer

from lakecore.cli.damage import holding
from lakecore.cli.option_groups import expanded

__all__ = ["HOLDING", "MAINTENANCE", "OTHER_NAMES", "TABLES", "register"]

TABLES: Mapping[str, str] = MappingProxyType(
    {
        "databases": "inspect",
        "tables": "inspect",
        "describe": "inspect",
        "snapshots": "inspect",
        "files": "inspect",
        "create": "create",
        "alter": "alter",
        "write": "write",
        "delete": "delete",
        "update-columns": "update_columns",
        "read": "read",
        "stream": "stream",
        "compact": "compact",
        "compact-database": "compact_database",
        "fsck": "fsck",
        "rewrite-file-index": "rewrite_file_index",
        "prepare-spark": "prepare_spark",
    }
)
"""A command's name to its module of `lakecore.cli`; its function has the same name with underscores."""

HOLDING = frozenset(
    {"describe", "snapshots", "files", "alter", "write", "delete", "update-columns", "read", "stream"}
)
"""Commands on one table that are no job of `lakecore.jobs`; they put it on hold when they meet damage."""

MAINTENANCE: Mapping[str, str] = MappingProxyType(
    {
        "expire-snapshots": "expire",
        "expire-changelogs": "expire",
        "remove-orphan-files": "quarantine",
        "undo": "quarantine",
        "runs": "quarantine",
        "purge-quarantine": "quarantine",
        "create-tag": "tags",
        "replace-tag": "tags",
        "rename-tag": "tags",
        "delete-tag": "tags",
        "expire-tags": "tags",
        "trigger-tag-automatic-creation": "auto_tags",
        "create-batch-tags": "auto_tags",
        "rollback-to": "rollback",
        "rollback-to-as-latest": "rollback",
        "reset-consumer": "rollback",
        "clear-consumers": "rollback",
        "expire-consumers": "rollback",
        "expire-partitions": "partitions",
        "drop-partition": "partitions",
        "mark-partition-done": "partitions",
        "create-branch": "branches",
        "delete-branch": "branches",
        "rename-branch": "branches",
        "fast-forward": "branches",
        "merge-branch": "branches",
        "why": "repair",
        "hold": "holds",
        "release": "holds",
        "holds": "holds",
        "repair": "repair",
        "repair-hints": "repair",
        "repair-earliest-snapshot": "repair",
        "compact-manifest": "repair",
        "rescale": "rescale",
        "analyze": "analyze",
        "remove-unexisting-files": "unexisting",
        "remove-unexisting-manifests": "unexisting",
    }
)
"""The same for the chores, which `--help` lists apart."""

OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "rollback": "rollback-to",
        "rollback-to-timestamp": "rollback-to",
        "rollback-to-watermark": "rollback-to",
        "create-tag-from-timestamp": "create-tag",
        "create-tag-from-watermark": "create-tag",
    }
)
"""Procedures of Paimon that are one command here; understood, and left out of `--help`."""


def register(app: typer.Typer, arguments: Iterable[str]) -> None:
    """Add the command that the arguments, without global options, name; all when they name none (help, a
    mistake).
    """
    every = {**TABLES, **MAINTENANCE}
    named = next((argument for argument in arguments if not argument.startswith("-")), None)
    if named is not None and named in OTHER_NAMES:
        own = OTHER_NAMES[named]
        app.command(named)(_function(own, every[own]))
        return
    for name in (named,) if named in every else every:
        panel = "Maintenance" if name in MAINTENANCE else None
        app.command(name, rich_help_panel=panel)(_function(name, every[name]))


def _function(name: str, module: str) -> Callable[..., None]:
    function: Callable[..., None] = getattr(
        importlib.import_module(f"lakecore.cli.{module}"), name.replace("-", "_")
    )
    return expanded(holding(name, function) if name in HOLDING else function)
