"""SIGKILL at a few of the operations of every chore, on a real disk: the next run finishes the work.

Which operations matter is found by test_maintain_faults.py, which stops at every one; here a process really dies.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.fs.local import LocalFileIO
from tests.support.chores import CHORES, Chore, check_rest, run_chore
from tests.support.fault_fs import FaultyFileIO
from tests.support.killing_fs import CHANGES, KillPoint, run_and_die
from tests.support.maintained import History, views

pytestmark = pytest.mark.slow

SHARES = (0.35, 0.75)
"""Of the changes that a chore makes, after which it is killed."""


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


@pytest.mark.parametrize("name", CHORES)
def test_a_killed_chore_is_finished_by_the_next(name: str, disk: Disk) -> None:
    chore = CHORES[name]
    made = disk.made(chore)
    counted = FaultyFileIO(LocalFileIO(sync=False))
    chore.run(made.through(counted))
    changes = sum(line.partition(" ")[0] in CHANGES for line in counted.log)
    check_rest(chore, made, name)
    done, after, left = made.files(), views(made.table), made.table.branches.list()
    for nth in sorted({max(1, round(share * changes)) for share in SHARES}):
        disk.made(chore)
        where = f"{name}: change {nth} of {changes}"
        run_and_die(KillPoint(name="", part="", nth=nth, after=True), run_chore, made.catalog.warehouse, name)
        made.check_views(where, after)
        made.check_whole(where, orphans=False)
        chore.again(made.catalog)
        check_rest(chore, made, where)
        assert views(made.table) == after, where
        assert chore.commits or made.files() == done, where
        assert made.table.branches.list() == left, where
