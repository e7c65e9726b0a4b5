"""The tables of the benches, written by Java Paimon, and the commands that start the peers in Java and in Rust."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["CACHE", "PAIMON", "ROOT", "RUST", "compile_java", "fresh_copy", "java", "prepare", "rust"]

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "bench"
SORTED_RUNS = 5
PAIMON = "1.4.2"
"""The release of Java Paimon that the benches compare with."""
RUST = "pypaimon-rust 0.4.0"
"""The release of Paimon's library in Rust, as tests/interop/pypaimon.lock pins it."""
JARS = Path(os.environ.get("PAIMON_JARS", f"~/.cache/paimon-oracle/{PAIMON}/jars")).expanduser()
OPENS = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("nio", "lang", "util")]


_REWRITE = """
import sys
from lakecore import load_catalog
from lakecore.format.parquet.splice.mode import CopyMode
from lakecore.jobs import compact

full, options = compact.Strategy.FULL, {"compaction.force-rewrite-all-files": "true"}
job = compact.Job(table="db." + sys.argv[2], strategy=full, options=options, copy=CopyMode.NONE)
compact.run(job, load_catalog(sys.argv[1]))
"""
"""A full compaction by lakecore, without copies: the large file of such a table has the row groups of lakecore."""


def prepare(rows: int, tables: Sequence[str]) -> Path:
    """The warehouse with these tables (see `Gen.java`), each made once per size: 5 M rows take half a minute."""
    compile_java()
    warehouse = CACHE / f"tables-{rows}"
    warehouse.mkdir(exist_ok=True)
    missing = [name for name in tables if not (warehouse / f"{name}.complete").exists()]
    if missing:
        print(f"writing {rows:,} rows to each of {', '.join(missing)}", file=sys.stderr)
        write = [*java("Gen"), warehouse, str(rows), str(SORTED_RUNS)]
        based = [name for name in missing if name.startswith(("top", "flat", "large"))]
        for name in based:
            shutil.rmtree(warehouse / "db.db" / name, ignore_errors=True)
        subprocess.run([*write, ",".join(missing)], check=True)
        for name in based:
            if not name.startswith("large"):  # whose large file stays that of Java
                subprocess.run([sys.executable, "-c", _REWRITE, warehouse, name], check=True)
            subprocess.run([*write, name], check=True)
        for name in missing:
            (warehouse / f"{name}.complete").touch()
    return warehouse


def compile_java() -> None:
    """The Java peers, against the oracle's jars (which are fetched when missing)."""
    subprocess.run([ROOT / "tests/oracle/oracle", "version"], check=True, stdout=subprocess.DEVNULL)
    classes = CACHE / "classes"
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    sources = sorted((ROOT / "tests/bench/java").glob("*.java"))
    subprocess.run(
        ["javac", "-nowarn", "-Xlint:none", "-cp", f"{JARS}/*", "-d", classes, *sources], check=True
    )


def java(main_class: str) -> list[str]:
    classes = f"{CACHE}/classes:{JARS}/*"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return ["java", "-Xmx4g", quiet, *OPENS, "-cp", classes, main_class]


def rust(warehouse: Path) -> list[str]:
    """The command of the peer in Rust. Raises FileNotFoundError where `make setup-tests` was not run."""
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        raise FileNotFoundError(f"{python} is missing: run `make setup-tests`")
    return [str(python), str(ROOT / "tests/bench/rust_peer.py"), str(warehouse)]


@contextmanager
def fresh_copy(warehouse: Path, table: str) -> Iterator[Path]:
    """A copy of a table, of this process alone; it is gone at the end."""
    copy = warehouse / "db.db" / f"{table}_copy_{os.getpid()}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(warehouse / "db.db" / table, copy)
    try:
        yield copy
    finally:
        shutil.rmtree(copy)
