"""A dry run tells the picks that a run has, for tables of every kind, partition, strategy and set of options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import lakecore
from lakecore.compact.compaction import Compaction
from lakecore.compact.engine.request import CompactRequest, RunName
from lakecore.compact.engine.run import RewriteRun
from lakecore.compact.engine.work import PickOutline, Strategy, outlines_of
from lakecore.errors import UnsupportedError
from lakecore.jobs.runner.lake import rewrite_target
from lakecore.scan.filters import EVERYTHING, ScanFilter
from lakecore.table import Table
from tests.support.golden import golden_tables

OPTIONS = (
    {"write-only": "true", "num-sorted-run.compaction-trigger": "2"},
    {"compaction.force-rewrite-all-files": "true"},
    {"target-file-size": "2 kb", "compaction.optimization-interval": "1 min"},
)


def told(outline: PickOutline) -> tuple[Any, ...]:
    """All that a dry run tells of a pick."""
    numbers = (outline.rewrites, outline.rows, outline.size, outline.moved_rows, outline.moved_size)
    files = tuple(sorted(outline.names.tolist()))
    return (
        outline.place,
        outline.name,
        outline.reason,
        outline.output_level,
        *numbers,
        dict(outline.moves),
        files,
    )


def scopes(table: Table) -> Iterator[ScanFilter]:
    """The whole table, and one of its partitions."""
    yield EVERYTHING
    snapshot = table._stores.snapshots.latest()
    if snapshot is not None and table.schema.partition_keys:
        partitions = sorted(table._scanner.live_entries(snapshot).partitions)
        if partitions:
            yield ScanFilter(serialized=frozenset(partitions[:1]))


def test_dry_runs_tell_the_picks_of_runs() -> None:
    seen: Counter[str] = Counter()
    for number, golden in enumerate(golden_tables()):
        lake = lakecore.load_catalog(str(golden.warehouse))
        for options in ({}, OPTIONS[number % len(OPTIONS)]):
            table = lake.load_table(golden.name).with_options(options)
            target = rewrite_target(table, lake.clock)
            for where in scopes(table):
                for strategy in Strategy:
                    name = RunName(commit_user="x", identifier=1)
                    request = CompactRequest(run=name, strategy=strategy, where=where)
                    try:
                        run = RewriteRun(target, request, Compaction(target, request), None)
                        planned = run.plan().picks
                    except UnsupportedError:
                        seen["refused"] += 1
                        continue
                    wanted = sorted(map(told, outlines_of(planned)), key=repr)
                    assert sorted(map(told, run.outline()), key=repr) == wanted, (golden.name, options)
                    seen[strategy.value] += len(wanted)
                    seen["moves"] += any(pick.moved for pick in planned)
                    seen["keyed"] += bool(table.schema.primary_keys and wanted)
    assert min(seen["universal"], seen["full"], seen["keyed"]) > 200, seen
    assert seen["moves"] > 10, seen
