"""Tests kept as text: `command key=value`, input lines, `----`, expected output; cases end at a blank line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Case", "check"]


@dataclass(frozen=True, slots=True)
class Case:
    """One question: a command, its arguments and the lines under it."""

    command: str
    args: Mapping[str, str]
    input: tuple[str, ...]


def check(path: Path, run: Callable[[Case], str], rewrite: bool) -> None:
    """Run every case of the file; with `rewrite`, store what came out as the new truth."""
    blocks = [block for block in path.read_text().strip().split("\n\n") if block]
    actual = [_answer(block, run) for block in blocks]
    if rewrite:
        path.write_text("\n\n".join(actual) + "\n")
    else:
        assert actual == blocks


def _answer(block: str, run: Callable[[Case], str]) -> str:
    question = block.partition("\n----\n")[0]
    lines = [line for line in question.splitlines() if not line.startswith("#")]
    command, *pairs = lines[0].split()
    case = Case(command, dict(pair.split("=", 1) for pair in pairs), tuple(lines[1:]))
    return f"{question}\n----\n{run(case)}"
