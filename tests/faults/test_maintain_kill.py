"""SIGKILL after the changes that each chore makes to a real disk: the next run finishes the work.

Here a process really dies, in the middle of atomic operations, too. Some changes of each chore are taken, others
for every chore; `pytest --every-kill` takes all of them (minutes).
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from tests.support.chores import CHORES, Chore, check_rest, run_chore
from tests.support.killing_fs import ChangingFileIO, run_and_die
from tests.support.maintained import NONE, History, views

pytestmark = pytest.mark.slow

SAMPLE = 3


class Disk:
    """One warehouse at one place: ledgers name files by their full path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[Callable[..., History], History] = {}

    def made(self, chore: Chore) -> History:
        """The table before the chore. Histories are made once."""
        image = self._folder / f"image-{chore.make.__name__}"
        if chore.make not in self._made:
            shutil.rmtree(self._folder / "wh", ignore_errors=True)
            self._made[chore.make] = chore.make(self._catalog())
            shutil.copytree(self._folder / "wh", image)
        shutil.rmtree(self._folder / "wh")
        shutil.copytree(image, self._folder / "wh")
        return self._made[chore.make]

    def _catalog(self) -> FilesystemCatalog:
        return load_catalog(str(self._folder / "wh"), create_warehouse=True, **{"local.fsync": "false"})


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    return Disk(tmp_path_factory.mktemp("killed"))


def points(name: str, changes: int) -> list[int]:
    """Some of the numbers from 1 to `changes`, spread; where they begin differs from chore to chore."""
    first = zlib.crc32(name.encode()) % 1000 / 1000
    return sorted({1 + int((first + k) / SAMPLE * changes) for k in range(SAMPLE)})


@pytest.mark.parametrize("name", CHORES)
def test_a_killed_chore_is_finished_by_the_next(
    name: str, disk: Disk, request: pytest.FixtureRequest
) -> None:
    chore = CHORES[name]
    made = disk.made(chore)
    before, counted = made.state(), ChangingFileIO()
    with counted.within():
        chore.run(made.through(counted))
    kept, changes = made.quarantined(), len(counted.log)
    check_rest(chore, made, name)
    kept = 0 if chore.two_runs else kept
    done, after, left = made.files(), views(made.table), made.table._stores.branches.list()
    assert changes > 2
    whole, left_over = {before}, {before}
    every = request.config.getoption("--every-kill")
    for nth in range(1, changes + 1) if every else points(name, changes):
        disk.made(chore)
        where = f"{name}: change {nth} of {changes}, like {counted.log[nth - 1]}"
        run_and_die(nth, run_chore, made.catalog.warehouse, name)
        if (state := made.state()) not in whole:
            whole.add(state)
            made.check_views(where, after)
            made.check_whole(where, orphans=False, damage=chore.damage)
        chore.again(made.catalog)
        assert chore.commits or made.quarantined() == kept, where
        if (state := made.state()) not in left_over:
            left_over.add(state)
            check_rest(chore, made, where)
            assert views(made.table) == after, where
        kept_files = {path for path in made.files() if chore.damage == NONE or not path.endswith(".tmp")}
        assert chore.commits or kept_files == done, where
        assert made.table._stores.branches.list() == left, where
    print(f"\n{name}: killed after {changes if every else SAMPLE} of {changes} changes")
