"""All benches: `python -m tests.bench [--small]`. The small ones leave the figures of `docs/figures` alone."""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.bench.figures import FIGURES
from tests.bench.tables import CACHE


def benches(*, small: bool) -> list[list[str]]:
    """The modules and arguments of all benches."""
    return [
        ["plan", "--files", "10000" if small else "100000", *([] if small else ["--files", "1000000"])],
        ["plan_java", "--files", "10000" if small else "1000000", "--runs", "1" if small else "3"],
        ["proof", "200000" if small else "2000000"],
        ["read", "--rows", "500000" if small else "5000000", "--runs", "2" if small else "5"],
        ["write", "--rows", "500000" if small else "5000000", "--runs", "2" if small else "5"],
        ["command", "--rows", "500000" if small else "5000000", "--runs", "1" if small else "3"],
        ["spark_io", "--rows", "100000" if small else "5000000", "--runs", "1" if small else "3"],
        ["index", "--rows", "500000" if small else "5000000", "--runs", "2" if small else "3"],
        [
            *("lookup", "--rows", "100000" if small else "1000000", "--runs", "1" if small else "3"),
            *("--load-rows", "500000" if small else "5000000"),
        ],
        [
            *("query_service", "--rows", "100000" if small else "1000000"),
            *("--seconds", "1" if small else "8"),
        ],
        ["maintain", "--snapshots", "200" if small else "2000", "--files", "100000" if small else "1000000"],
        ["catalogs", "--tables", "500" if small else "10000", "--runs", "1" if small else "3"],
        ["compact", "--rows", "500000" if small else "5000000", "--runs", "2" if small else "5"],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--small", action="store_true", help="a tenth of the size: shows that the benches run"
    )
    small = parser.parse_args().small
    folder = CACHE / "small-figures" if small else FIGURES
    failed = []
    for name, *arguments in benches(small=small):
        print(f"\n== {name} {' '.join(arguments)}", flush=True)
        command = [sys.executable, "-m", f"tests.bench.{name}", *arguments, "--figures", str(folder)]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
