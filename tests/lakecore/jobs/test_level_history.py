"""The levels of a table over its history: those that its full manifests have at each snapshot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lakecore.catalog.registry import load_catalog
from lakecore.jobs.level_history import level_history
from tests.support.golden import golden_table
from tests.support.lake import append_table, key_table, memory_catalog, put


@pytest.mark.parametrize(
    "name", ["a_pk_runs", "a_append_unaware_compacted", "a_cl_full", "a_evo_pk_compact", "a_life_expired"]
)
def test_each_point_is_what_the_manifests_of_its_snapshot_say(name: str, tmp_path: Path) -> None:
    golden_table(f"g1.{name}").copy_to(tmp_path / "lake")
    catalog = load_catalog(str(tmp_path / "lake"))
    table = catalog.load_table(f"g1.{name}")
    points = level_history(catalog, f"g1.{name}")
    assert tuple(one.snapshot for one in points) == tuple(table._stores.snapshots.list_ids())
    for one in points:
        snapshot = table._stores.snapshots.load(one.snapshot)
        live = table._scanner.live_entries(snapshot)
        files, sizes = Counter[int](), Counter[int]()
        buckets: dict[tuple[bytes, int], list[int]] = {}
        for entry in live:
            files[entry.file.level] += 1
            sizes[entry.file.level] += entry.file.file_size
            buckets.setdefault((entry.partition, entry.bucket), []).append(entry.file.level)
        assert one.levels == {level: (files[level], sizes[level]) for level in files}
        runs = [levels.count(0) + len(set(levels) - {0}) for levels in buckets.values()]
        assert one.sorted_runs == (max(runs, default=0) if table.schema.primary_keys else 0)
        assert (one.kind, one.time_ms) == (snapshot.commit_kind.value, snapshot.time_millis)


def test_it_ends_at_the_limit_and_where_a_snapshot_is_missing() -> None:
    catalog = memory_catalog("levels")
    table = key_table(catalog)
    assert level_history(catalog, table.name) == ()
    put(table, *[[{"k": n, "v": "x"}] for n in range(6)])
    assert [one.snapshot for one in level_history(catalog, table.name, most=2)] == [5, 6]
    catalog.file_io.delete(table._stores.paths.snapshot(3))
    assert [one.snapshot for one in level_history(catalog, table.name)] == [4, 5, 6]
    assert [one.sorted_runs for one in level_history(catalog, table.name)] == [4, 5, 6]


def test_a_table_without_a_key_has_files_and_no_runs() -> None:
    catalog = memory_catalog("flat")
    table = append_table(catalog)
    put(table, *[[{"v": n, "p": "a"}] for n in range(3)])
    assert [(one.levels[0][0], one.sorted_runs) for one in level_history(catalog, table.name)] == [
        (1, 0),
        (2, 0),
        (3, 0),
    ]
