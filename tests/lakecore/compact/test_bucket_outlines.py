"""Picks in numbers, planned from columns, are those of the files: for any history, and for golden tables."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from lakecore.compact.kinds.primary_key.plan import BucketPick, PickRequest, plan_picks
from lakecore.compact.kinds.primary_key.planner import _bucket_rules, _place_of
from lakecore.lsm import bucket_picks
from lakecore.metadata.manifest.entries import ManifestEntries
from tests.lakecore.compact.test_plan_columns import file_by_file, golden_requests, history, marked, requests


def of_pick(pick: BucketPick) -> tuple[Any, ...]:
    rewritten = [file.file_name for stretch in pick.work.rewrites for part in stretch for file in part.files]
    moved = [file.file_name for file in pick.work.upgrades]
    announced = [file.file_name for file in pick.work.announced]
    files = tuple(tuple(sorted(names)) for names in (rewritten, moved, announced))
    return pick.place, pick.reason, pick.output_level, pick.newest_schema, *files


def of_columns(found: bucket_picks.ColumnPick, entries: ManifestEntries) -> tuple[Any, ...]:
    lanes = (found.rewritten, found.moved, found.announced)
    files = tuple(tuple(sorted(file.file_name for file in entries.files(part))) for part in lanes)
    pick = found.pick
    return _place_of(found, entries), pick.reason, pick.output_level, found.newest_schema, *files


def both(entries: ManifestEntries, request: PickRequest) -> tuple[list[tuple[Any, ...]], int]:
    """What columns and files tell together, and how much of it columns do."""
    marked = {(partition, bucket) for partition, bucket, _ in request.deletions}
    found, others = bucket_picks.pick_buckets(entries, _bucket_rules(request), marked)
    assert len(others) <= len(entries)
    picks = plan_picks(others, request)
    listed = [of_columns(pick, entries) for pick in found] + [of_pick(pick) for pick in picks]
    return sorted(listed, key=repr), len(found)


def test_outlines_of_any_history_are_those_of_files() -> None:
    from_columns = announced = moved = rewritten = 0
    for seed in range(600):
        draw = random.Random(seed)
        entries = history(draw)
        if seed % 3:
            entries = [
                replace(entry, file=replace(entry.file, schema_id=draw.randrange(3))) for entry in entries
            ]
        if seed % 5 == 0:
            entries = [
                replace(entry, file=replace(entry.file, file_name=entry.file.file_name[:-8] + ".row"))
                if draw.random() < 0.2
                else entry
                for entry in entries
            ]
        request = replace(requests(draw), deletions=marked(draw, entries))
        live = ManifestEntries.from_rows(entries)
        wanted = sorted(map(of_pick, file_by_file(live, request)), key=repr)
        if request.needs_files:
            continue
        found, count = both(live, request)
        assert found == wanted, seed
        from_columns += count
        rewritten += sum(bool(pick[4]) for pick in wanted)
        moved += sum(bool(pick[5]) for pick in wanted)
        announced += sum(bool(pick[6]) for pick in wanted)
    assert from_columns > 300
    assert min(rewritten, moved, announced) > 50


def test_outlines_of_golden_tables_are_those_of_files() -> None:
    from_columns = picks = 0
    for name, live, request in golden_requests():
        wanted = sorted(map(of_pick, file_by_file(live, request)), key=repr)
        found, count = both(live, request)
        assert found == wanted, name
        from_columns, picks = from_columns + count, picks + len(wanted)
    assert from_columns > picks // 2
    assert picks > 300
