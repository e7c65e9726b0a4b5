"""This module keeps the names of `operators`, as lakecore's package for Airflow was called, for one release:
`operators.compact.CompactTableOperator` is `lakecore_airflow.operators.compact.CompactTableOperator`.

DAG files import such names, and Airflow's database has them as class paths of serialized tasks and of waiting
triggers. The finder stands at the end of `sys.meta_path`: whatever Python finds without it wins, so a user's
own package `operators` does, and each module of it. The first import of a module by its old name warns with a
DeprecationWarning.

`accept_old_names` is called when `lakecore_airflow` is imported. A DAG file may begin with an old name, when
nothing of lakecore is imported yet: the wheel has a file `lakecore_old_names.pth`, by which Python processes
of the environment import `lakecore_airflow` when a module of `operators` is requested that nobody has.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

__all__ = ["OldNames", "accept_old_names"]

_OLD, _NEW = "operators", "lakecore_airflow"
_PLACES: Mapping[str, str] = {
    "analyze": "operators.analyze",
    "assets": "assets",
    "branches": "operators.branches",
    "chore": "tasks.chore",
    "chore_request": "tasks.chore_request",
    "compact": "operators.compact",
    "compact_database": "lake.compact_database",
    "consumers": "operators.consumers",
    "dags": "dags",
    "dags.settings": "settings",
    "engine": "tasks.engine",
    "engine_chore": "tasks.engine_chore",
    "expire": "operators.expire",
    "fsck": "operators.fsck",
    "get_provider_info": "get_provider_info",
    "holds": "operators.holds",
    "hooks": "hooks",
    "identity": "tasks.identity",
    "job": "tasks.job",
    "lease_wait": "tasks.lease_wait",
    "ledger": "operators.ledger",
    "lineage": "reports.lineage",
    "links": "links",
    "maintain": "policy.maintain",
    "metrics": "reports.metrics",
    "orphans": "operators.orphans",
    "partition_sensor": "sensors.partitions",
    "partitions": "operators.partitions",
    "period_tags": "operators.period_tags",
    "query_service": "operators.query_service",
    "repair": "operators.repair",
    "rescale": "operators.rescale",
    "rewrite_file_index": "operators.rewrite_file_index",
    "rewriting": "policy.rewriting",
    "rollback": "operators.rollback",
    "secrets": "secrets",
    "sensor": "sensors.table_sensor",
    "snapshots": "sensors.snapshots",
    "survey": "lake.survey",
    "tables": "lake.tables",
    "tag_sensor": "sensors.tags",
    "tags": "operators.tags",
    "task": "tasks.table_task",
    "triggers": "triggers",
    "ui": "ui",
    "watch": "watch",
    "window": "tasks.window",
}
"""Where the modules and packages of `operators` are below `lakecore_airflow`."""
_PACKAGES = (_OLD, f"{_OLD}.dags", f"{_OLD}.ui")


def accept_old_names() -> None:
    """Add the finder at the end of `sys.meta_path`, once."""
    if not any(isinstance(finder, OldNames) for finder in sys.meta_path):
        sys.meta_path.append(OldNames())


class OldNames:
    """This finder finds modules by their old names. What a finder behind it finds wins, too."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module of `operators`; None for every name that lakecore never had."""
        new = _new_name(name)
        if new is None:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in behind)
        own = next((spec for spec in specs if spec is not None), None)
        return own or ModuleSpec(name, _NewModule(new), is_package=name in _PACKAGES)


class _NewModule(Loader):
    """It loads the module of the new name, and puts it under the old one.

    A package gets a module of its own with an empty path: Python would find the modules of the new package on
    its path, and load each of them a second time.
    """

    def __init__(self, new: str) -> None:
        self._new = new
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if spec.name != _OLD:
            message = f"{spec.name} is {self._new} now: import that; the old name ends with the next release"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
        module = import_module(self._new)
        if spec.name in _PACKAGES:
            return None
        self._spec = module.__spec__  # the import system is about to put the old name there
        return module

    def exec_module(self, module: ModuleType) -> None:
        if self._spec is not None:
            module.__spec__ = self._spec
        elif module.__name__ != _OLD:
            new = sys.modules[self._new]
            vars(module)["__getattr__"] = lambda name: getattr(new, name)


def _new_name(old: str) -> str | None:
    """Return the new name of a module; None where there is none."""
    if old == _OLD:
        return _NEW
    package, _, rest = old.partition(".")
    if package == _OLD and rest in _PLACES:
        return f"{_NEW}.{_PLACES[rest]}"
    place, _, module = rest.partition(".")
    if f"{package}.{place}" not in _PACKAGES:
        return None
    new = f"{_NEW}.{_PLACES[place]}.{module}"
    return new if find_spec(new) is not None else None
