"""Steps as the oracle's commands."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakecore.clock import SystemClock
from tests.fuzz.history import Step
from tests.support.oracle import Oracle, OracleError

__all__ = ["java_step", "partition_text", "reason", "without_names"]

_WRITE_ONLY = ("--option", "write-only=true")


def java_step(java: Oracle, warehouse: Path, name: str, step: Step, *, write_only: bool = False) -> None:
    """Do `step` on table `name`. `write_only`: a write compacts nothing. Raises OracleError."""
    place = (warehouse, name)
    match step.op:
        case "write" | "overwrite":
            flags = ["--overwrite", partition_text(step.partition) if step.partition else "all"]
            only = _WRITE_ONLY if write_only else ()
            java.write(*place, step.rows, *(flags if step.op == "overwrite" else ()), *only)
        case "compact":
            java.compact(*place, full=step.full)
        case "delete":
            _delete(java, place, step.rows[0])
        case _:
            java.call(*_command(step, place))


def _command(step: Step, place: tuple[Path, str]) -> tuple[object, ...]:
    match step.op:
        case "alter":
            return ("alter", *place, json.dumps([step.change]))
        case "expire":
            return ("expire-snapshots", *place, "--retain-max", step.keep, "--retain-min", 1)
        case "tag" | "untag":
            return ("create-tag" if step.op == "tag" else "delete-tag", *place, step.name)
        case "rollback":
            return ("rollback", *place, "--tag", step.name)
        case "branch":
            return ("create-branch", *place, step.name, "--tag", step.tag)
        case "unbranch":
            return ("delete-branch", *place, step.name)
        case "orphans":
            return ("remove-orphan-files", *place, "--older-than", SystemClock().now_ms())
        case "drop":
            return ("drop-partitions", *place, partition_text(step.partition or {}))
    raise ValueError(f"no such step: {step.op}")


def _delete(java: Oracle, place: tuple[Path, str], row: Mapping[str, Any]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write(json.dumps(row))
        file.flush()
        java.call("delete-rows", *place, file.name)


def partition_text(partition: Mapping[str, Any]) -> str:
    """`name=value,…`."""
    return ",".join(f"{name}={value}" for name, value in partition.items())


def reason(err: OracleError) -> str:
    """What Java threw, without names and numbers of this run."""
    thrown = re.findall(r"[\w.$]+(?:Exception|Error): [^;]*", str(err).split("\n")[0])
    return without_names(thrown[-1] if thrown else str(err))


def without_names(text: str) -> str:
    """A message without what differs from run to run."""
    words = [
        word
        for word in text.replace("\n", " ").split()
        if "/" not in word and not any(c.isdigit() for c in word)
    ]
    return " ".join(words)[:110]
