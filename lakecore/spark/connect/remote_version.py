"""This module checks that the Python workers of a Spark Connect server have the lakecore of this process.

Units are pickled by the names of their functions. With another lakecore there, a unit would fail in the
middle of a job, or do something else than this process expects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakecore.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

__all__ = ["check_workers", "new_probe"]

_MOST_CORES = 1 << 16
_REMEDY = (
    "install the lakecore of this process in the Python of the server's workers (PYSPARK_PYTHON of the "
    "server), or give ConnectExecutor a session with an archive of it (addArtifacts with pyfile=True)"
)

_Batches = Iterator[pa.RecordBatch]


def new_probe() -> Callable[[_Batches], _Batches]:
    """Return a function that tells which lakecore its process has, as one row: `host`, `version`, `digest`
    (of the sources), and `problem` (empty where the import works).

    It is pickled with its code, and not by its name, since lakecore may be missing where it runs.
    """

    def probe(batches: Any) -> Any:
        import hashlib
        import importlib
        import importlib.metadata
        import importlib.resources
        import platform

        import pyarrow

        def sources(folder: Any, path: str) -> Any:
            for item in sorted(folder.iterdir(), key=lambda one: str(one.name)):
                if item.is_dir() and item.name != "__pycache__":
                    yield from sources(item, f"{path}/{item.name}")
                elif item.name.endswith(".py"):
                    yield f"{path}/{item.name}", item.read_bytes()

        for _ in batches:
            pass
        row = {"host": platform.node(), "version": "", "digest": "", "problem": ""}
        try:
            digest = hashlib.sha256()
            for path, content in sources(importlib.resources.files("lakecore"), ""):
                digest.update(b"%s %d\n" % (path.encode(), len(content)) + content)
            row["digest"] = digest.hexdigest()
            importlib.import_module("lakecore.spark.connect.unit_tasks")
            importlib.import_module("lakecore.table")
            row["version"] = importlib.metadata.version("lakecore")
        except importlib.metadata.PackageNotFoundError:
            row["version"] = "from an archive"
        except Exception as err:  # noqa: BLE001 - an import may raise anything, which is what is asked for
            row["problem"] = f"{type(err).__name__}: {err}"
        yield pyarrow.RecordBatch.from_pylist([row])

    return probe


def check_workers(session: SparkSession) -> int:
    """Run a probe in as many tasks as the server runs at once, and return their number.

    Raises InvalidInputError if a worker has no lakecore, another one, or another Python, and what Spark
    raises for a task that fails.
    """
    probe = new_probe()
    frame = session.range(0, _MOST_CORES).mapInArrow(
        probe, "host string, version string, digest string, problem string"
    )
    try:
        there = frame.toArrow().to_pylist()
    except Exception as err:
        if "PYTHON_VERSION_MISMATCH" in str(err):
            raise InvalidInputError(
                f"the workers of the Spark Connect server have another Python than this process: "
                f"{_line_with('PYTHON_VERSION_MISMATCH', str(err))}; {_REMEDY}"
            ) from err
        raise
    here = next(probe(iter(()))).to_pylist()[0]
    for one in there:
        _compare(here, one)
    return len(there)


def _compare(here: dict[str, str], there: dict[str, str]) -> None:
    """Raise InvalidInputError unless both have the same lakecore."""
    if there["problem"]:
        raise InvalidInputError(
            f"a worker of the Spark Connect server, on {there['host']}, cannot import lakecore "
            f"({there['problem']}); {_REMEDY}"
        )
    if there["digest"] != here["digest"]:
        raise InvalidInputError(
            f"a worker of the Spark Connect server, on {there['host']}, has another lakecore "
            f"({there['version']}, sources {there['digest'][:12]}) than this process ({here['version']}, "
            f"sources {here['digest'][:12]}); {_REMEDY}"
        )


def _line_with(word: str, text: str) -> str:
    return next(line.strip() for line in text.splitlines() if word in line)
