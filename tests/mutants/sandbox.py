"""A copy of the tree, in which bugs are put one at a time; the checkout is never touched."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import ROOT, Mutant

__all__ = ["Sandbox"]

_MUTATED_TIME = 1_000_000_000
"""Seconds since the epoch; compiled files are told apart by the second and the size of their source."""
_LEFT_OUT = (".demo", "docs/pictures", "tests/oracle/src")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """`path`: the copy. `.cache` and the virtual environment are those of the checkout."""

    path: Path

    @classmethod
    def create(cls, path: Path, root: Path = ROOT) -> Sandbox:
        """Make the copy, or bring one that is there up to date: every file that git knows or does not ignore."""
        listed = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")
        wanted = [
            name for name in names if name and not name.startswith(_LEFT_OUT) and (root / name).is_file()
        ]
        for name in wanted:
            _brought(root / name, path / name)
        for old in path.rglob("*.py"):
            if old.is_file() and not (root / old.relative_to(path)).exists():
                old.unlink()
        for name in (".cache", ".venv"):
            if (root / name).exists() and not (path / name).is_symlink():
                (path / name).symlink_to((root / name).resolve(), target_is_directory=True)
        return cls(path)

    @contextmanager
    def mutated(self, mutant: Mutant | None) -> Iterator[None]:
        """With the bug (None: without any). Raises MutantError when it does not apply."""
        if mutant is None:
            yield
            return
        file = self.path / mutant.file
        before, time = file.read_text(), file.stat().st_mtime
        file.write_text(mutant.applied(before))
        stamp = _MUTATED_TIME + int(mutant.digest[:7], 16)
        os.utime(file, (stamp, stamp))
        try:
            yield
        finally:
            file.write_text(before)
            os.utime(file, (time, time))


def _brought(source: Path, target: Path) -> None:
    found = source.stat()
    if target.exists():
        there = target.stat()
        if (there.st_size, there.st_mtime) == (found.st_size, found.st_mtime):
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
