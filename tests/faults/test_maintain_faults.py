"""Storage fails at operation 1, 2, 3, … of every chore: what can be seen is whole, a second run finishes the work.

In the end the table is what it is after a run without failures, and the quarantine has the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.chores import CHORES, Chore, check_rest
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.fault_turns import failing_operations
from tests.support.killing_fs import CHANGES
from tests.support.maintained import History, views

ERROR, AFTER = FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT
DEAD, DEAD_AFTER, TORN = FaultMode.DEAD, FaultMode.DEAD_AFTER_EFFECT, FaultMode.TORN

MODES = {
    "expire": (ERROR, DEAD, TORN),
    "expire-and-keep": (DEAD_AFTER,),
    "expire-to-changelogs": (DEAD_AFTER,),
    "expire-changelogs": (DEAD,),
    "replace-tag": (ERROR,),
    "trigger-tags": (DEAD,),
    "batch-tags": (DEAD_AFTER,),
    "orphans": (DEAD,),
    "purge-files": (DEAD_AFTER,),
    "create-branch": (ERROR,),
    "expire-partitions": (DEAD_AFTER,),
    "drop-partition": (AFTER,),
    "rollback-as-latest": (DEAD_AFTER,),
    "compact-manifest": (ERROR,),
    "rescale": (DEAD_AFTER,),
    "analyze": (ERROR,),
    "rewrite-file-index": (),  # from here on: in tests of their own
    "compact": (),
    "cluster": (),
    "merge-branch": (),
    "remove-unexisting-files": (),
    "remove-unexisting-manifests": (),
    "repair": (),
    "repair-roots": (),
}
"""Where a try takes long, the ways of failing are shared out: what removes files, and what commits, is the same
code for all.
"""
OTHERS = (ERROR, DEAD_AFTER)
CHANGES_ONLY = frozenset({"purge-files"})
"""It reads much, and a process that dies at a read leaves what one leaves that died after the change before it."""
FAST = {("expire", TORN), ("expire-and-keep", DEAD_AFTER)}
CASES = [
    pytest.param(
        name, mode, id=f"{name}-{mode.value}", marks=[] if (name, mode) in FAST else [pytest.mark.slow]
    )
    for name in CHORES
    for mode in MODES.get(name, OTHERS)
]


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_every_operation_fails_once(name: str, mode: FaultMode) -> None:
    chore = CHORES[name]
    made = chore.make(f"maintain-{name}-{mode.value}")
    before = made.state()
    chore.run(made.catalog)
    check_rest(chore, made, name)
    done, after, kept = made.state(), views(made.table), made.quarantined()
    assert done != before or name == "purge"
    whole, left_over = set[object](), {before}
    turns = failing_operations(mode, MODES.get(name, OTHERS))
    for number in _changes(chore, made) if name in CHANGES_ONLY else turns:
        made.reset()
        storage = FaultyFileIO(made.catalog.file_io, fail_at=number, mode=mode)
        problem = chore.attempt(made.through(storage))
        if storage.fired and made.untouched():
            continue
        where = f"operation {number} ({storage.log[number - 1 : number]}), then {problem!r}"
        if (state := made.state()) not in whole:
            whole.add(state)
            made.check_views(where, after)
            made.check_whole(where, orphans=False)
        chore.again(made.catalog)
        if (state := made.state()) not in left_over:
            left_over.add(state)
            check_rest(chore, made, where)
            assert views(made.table) == after, where
        assert chore.commits or made.state() == done, where
        assert made.quarantined() == kept or chore.commits, where
        if not storage.fired:
            assert number > 5
            return


def _changes(chore: Chore, made: History) -> Iterator[int]:
    """The numbers of the operations that change something, and one that the chore does not reach."""
    made.reset()
    storage = FaultyFileIO(made.catalog.file_io)
    chore.run(made.through(storage))
    yield from (number for number, line in enumerate(storage.log, 1) if line.split()[0] in CHANGES)
    yield len(storage.log) + 100
