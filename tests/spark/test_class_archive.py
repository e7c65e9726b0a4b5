"""The class archive speeds sessions up, and can do them no harm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakecore.spark.class_archive import archive_file, share_options
from lakecore.spark.java import find_java

pytestmark = pytest.mark.slow

SESSION = """
from lakecore.spark.executor import SparkExecutor
with SparkExecutor("local[1]") as spark:
    print(list(spark.run(abs, [-7])), spark.jvm_process is not None)
"""


def session(cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", SESSION], env=environment, check=False, capture_output=True, text=True
    )


def test_a_damaged_archive_is_ignored_without_a_word(tmp_path: Path) -> None:
    archive = tmp_path / "lakecore" / archive_file(find_java()).name
    archive.parent.mkdir()
    archive.write_bytes(b"not an archive" * 1000)
    done = session(tmp_path)
    assert (done.returncode, done.stdout) == (0, "[7] True\n"), done.stderr


def test_an_archive_is_used_when_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = find_java()
    assert share_options(java) == ()
    archive_file(java).parent.mkdir()
    archive_file(java).touch()
    assert share_options(java)[0] == f"-XX:SharedArchiveFile={archive_file(java)}"
