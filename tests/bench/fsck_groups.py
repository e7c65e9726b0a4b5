"""Benchmark: `fsck` of a table of very many files, in groups of buckets and as a whole.

    .venv/bin/python -m tests.bench.fsck_groups --files 1000000 --groups 100000,250000,1000000

The table is that of `tests.bench.plan_java`, written by Java Paimon; its data files are made here, without content, in the
size that their manifests say. No data file is opened. Each size of groups has a process of its own, from process start. A size
that is not below the number of entries means the whole table in one pass.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.bench.figures import FIGURES, conditions, write_figures
from tests.bench.plan_groups import run
from tests.bench.plan_java import made
from tests.bench.tables import PAIMON

AT_ONCE = 50_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--groups", default="100000,250000,1000000", help="files of a group, by commas")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="directory of the figures")
    parser.add_argument("--check", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warehouse, table = made(options.files)
    if options.check:
        print(json.dumps(checked(warehouse, table, options.check)))
        return
    fill(warehouse, table)
    measured = conditions([PAIMON])
    own = [sys.executable, "-m", "tests.bench.fsck_groups", "--files", str(options.files), "--check"]
    figures: dict[str, Any] = {"files": options.files}
    for most in options.groups.split(","):
        figures[f"groups of {int(most):,}"] = run([*own, most], "")
        print(most, figures, file=sys.stderr)
    write_figures("fsck_groups", measured, figures, options.figures)
    print(json.dumps(figures, indent=2))


def checked(warehouse: Path, table: str, most: int) -> dict[str, Any]:
    """Check the table in groups of at most `most` files, and return what the report says."""
    from lakecore import load_catalog
    from lakecore.jobs import fsck
    from lakecore.verify.fsck import check

    check.PASS_ENTRIES = most
    report = fsck.run(
        fsck.Job(table=f"db.{table}", read_data=False, holds=False), load_catalog(str(warehouse))
    ).report
    return {
        "snapshots": report.snapshots,
        "data_files": report.data_files,
        "findings": len(report.findings),
    }


def fill(warehouse: Path, table: str) -> None:
    """Make the data files of the table, which take no space."""
    from lakecore import load_catalog
    from lakecore.verify.fsck.references import bucket_directory

    filled = warehouse / f"{table}.filled"
    if filled.exists():
        return
    loaded = load_catalog(str(warehouse)).load_table(f"db.{table}")
    snapshot = loaded._stores.snapshots.latest()
    assert snapshot is not None
    entries = loaded._scanner.live_entries(snapshot)
    directory = bucket_directory(loaded._stores.paths, loaded.schema)
    for low in range(0, len(entries), AT_ONCE):
        part = entries.select(slice(low, low + AT_ONCE))
        columns = (part.partition.tolist(), part.bucket.tolist(), part.names(), part.file_size.tolist())
        for code, bucket, name, size in zip(*columns, strict=True):
            path = Path(directory(part.partitions[code], bucket)) / name.decode()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            os.truncate(path, size)
    filled.touch()


if __name__ == "__main__":
    main()
