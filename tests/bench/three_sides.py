"""The three sides of the benches of reads and writes: Java Paimon, its library in Rust, and lakecore."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.processes import Contestant
from tests.bench.tables import java, rust

__all__ = ["beside", "contestants", "table_of_sides"]


def contestants(warehouse: Path, module: str) -> dict[str, Contestant]:
    """The processes; lakecore's is the bench `module` itself, with `--work`."""
    ours = [sys.executable, "-m", module, "--work", str(warehouse)]
    return {
        "java": Contestant("java", [*java("Peer"), str(warehouse), "2"], warehouse / "java.log"),
        "rust": Contestant("rust", rust(warehouse), warehouse / "rust.log"),
        "lakecore": Contestant("lakecore", ours, warehouse / "lakecore.log"),
    }


def beside(case: str, size: int, figures: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of a case, with how many times as fast lakecore is as each peer."""
    seconds = {name: one["seconds"] for name, one in figures.items()}
    return {
        "case": case,
        "bytes": size,
        "ratio": seconds["java"] / seconds["lakecore"],
        "ratio_to_rust": seconds["rust"] / seconds["lakecore"],
        "load_after": os.getloadavg(),
        **figures,
    }


def table_of_sides(title: str, figures: Sequence[dict[str, Any]], cases: Mapping[str, str]) -> None:
    """Print what Java, Rust and lakecore took for each case."""
    from rich.console import Console
    from rich.table import Table

    table = Table("", "s", "MB/s", "lakecore : Java", ": Rust", "CPU s", "peak MB", title=title)
    for one in figures:
        sides = [one[name] for name in ("java", "rust", "lakecore")]
        table.add_row(
            cases[one["case"]],
            _beside(side["seconds"] for side in sides),
            _beside((one["bytes"] / side["seconds"] / 1e6 for side in sides), digits=0),
            f"{one['ratio']:.2f}x",
            f"{one['ratio_to_rust']:.2f}x",
            _beside(side["cpu"] for side in sides),
            _beside((max(side["peak_bytes"].values()) / 1e6 for side in sides), digits=0),
        )
    Console(width=130).print(table)
    print("load average at the end of each:", *(f"{one['load_after'][0]:.1f}" for one in figures))


def _beside(values: Iterable[float], digits: int = 2) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in values)
