"""The probe, which tells what lakecore a worker of a Spark Connect server has."""

from __future__ import annotations

import json
import shutil
import site
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

import lakecore
from lakecore.errors import InvalidInputError
from lakecore.spark.connect.remote_version import check_workers, new_probe

SOURCE = str(Path(lakecore.__path__[0]))

WORKER = """
import json, pickle, sys
sys.path[:0] = sys.argv[2:]
probe = pickle.load(open(sys.argv[1], "rb"))
print(json.dumps(next(probe(iter(()))).to_pylist()[0]))
"""


def probed(tmp_path: Path, *path: str) -> dict[str, str]:
    """What the probe says in a Python whose path has the packages of this one, but not lakecore."""
    (tmp_path / "probe").write_bytes(cloudpickle.dumps(new_probe()))
    command = [sys.executable, "-S", "-c", WORKER, str(tmp_path / "probe"), *path, *site.getsitepackages()]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    return dict(json.loads(ended.stdout))


class Answers:
    """A session whose workers give these rows."""

    def __init__(self, *rows: dict[str, str]) -> None:
        self._rows = list(rows)

    def __getattr__(self, _: str) -> Any:
        return lambda *_: self

    def to_pylist(self) -> list[dict[str, str]]:
        return self._rows


def here() -> dict[str, str]:
    return dict(next(new_probe()(iter(()))).to_pylist()[0])


def test_the_same_sources_are_the_same_wherever_they_are(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "lakecore", ignore=shutil.ignore_patterns("__pycache__"))
    packed = probed(tmp_path, shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "lakecore"))
    assert (packed["problem"], packed["digest"]) == ("", here()["digest"])
    assert check_workers(Answers(here(), packed)) == 2  # type: ignore[arg-type]


def test_a_worker_with_another_lakecore_is_refused(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "lakecore", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "lakecore" / "errors.py").open("a") as file:
        file.write("# of another day\n")
    there = probed(tmp_path, str(tmp_path))
    assert there["problem"] == ""
    with pytest.raises(InvalidInputError, match=r"has another lakecore .*addArtifacts"):
        check_workers(Answers(here(), there))  # type: ignore[arg-type]


def test_a_worker_without_lakecore_is_refused(tmp_path: Path) -> None:
    there = probed(tmp_path)
    assert "ModuleNotFoundError" in there["problem"]
    with pytest.raises(
        InvalidInputError, match=r"cannot import lakecore .*install the lakecore of this process"
    ):
        check_workers(Answers(there))  # type: ignore[arg-type]


def test_another_python_is_named() -> None:
    class Fails(Answers):
        def to_pylist(self) -> list[dict[str, str]]:
            raise RuntimeError("a\n[PYTHON_VERSION_MISMATCH] Python in worker has 3.9, the driver 3.11\nb")

    with pytest.raises(InvalidInputError, match=r"another Python .*: \[PYTHON_VERSION_MISMATCH\] Python in"):
        check_workers(Fails())  # type: ignore[arg-type]
