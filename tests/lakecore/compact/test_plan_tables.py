"""The rules of compactions as text tables: each case in `testdata` is a bucket or a queue, and what is planned for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from lakecore.compact.engine.work import Strategy
from lakecore.compact.kinds.clustered_primary_key.plan import ClusteredRequest, plan_clustered
from lakecore.compact.kinds.postpone.plan import PostponedFiles, cut, plan_partitions
from lakecore.compact.kinds.primary_key.mode import Derivation, MergeMode
from lakecore.compact.kinds.primary_key.plan import BucketPick, PickRequest, plan_picks
from lakecore.compact.kinds.rescale.plan import bucket_groups, layers_of, target_count
from lakecore.compact.kinds.sort.plan import CutPolicy
from lakecore.compact.pool.plan import FairQueue, QueuedUnit
from lakecore.errors import LakeError
from lakecore.lsm.options import TreePolicy
from lakecore.metadata.key_order import key_order
from lakecore.metadata.manifest.data_file import EMPTY_ROW, DataFile, ManifestEntry
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.manifest.index_file import DeletionFile, DeletionRange
from lakecore.metadata.options import TableOptions
from tests.support import datadriven
from tests.support.builders import data_file, manifest_entry, table_schema
from tests.support.datadriven import Case

TESTDATA = Path(__file__).parent / "testdata"
TARGET = 100
"""Bytes of a new file in all tables; below 70 a file counts as small, for clustered keys below 50."""
KEY_OF = key_order(table_schema().key_type)


class Files:
    """The files of a case. Lines: a name, and what differs from `size=100 level=0 keys=0-9 deletes=0 bucket=0`."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.entries: list[ManifestEntry] = []
        self.flags: dict[str, set[str]] = {}
        self.ranges: dict[str, tuple[int, int] | None] = {}
        for number, line in enumerate(lines):
            name, *pairs = line.split()
            values = dict(pair.split("=") for pair in pairs)
            self._add(f"{name}.parquet", values, number)

    def _add(self, name: str, values: dict[str, str], number: int) -> None:
        unknown = values.get("keys") == "?"
        low, high = (0, 9) if unknown else map(int, values.get("keys", "0-9").split("-"))
        sequence = int(values.get("sequence", number))
        made = data_file(
            name,
            keys=(low, high),
            level=int(values.get("level", "0")),
            size=int(values.get("size", TARGET)),
            sequence=(sequence, sequence),
        )
        deletes = None if values.get("deletes") == "?" else int(values.get("deletes", "0"))
        made = replace(made, delete_row_count=deletes)
        self.ranges[name] = None if unknown else (low, high)
        self.flags[name] = {key for key, value in values.items() if value == "yes"}
        self.entries.append(manifest_entry(made, bucket=int(values.get("bucket", "0"))))

    def has(self, flag: str, file: DataFile) -> bool:
        return flag in self.flags[file.file_name]

    @property
    def live(self) -> ManifestEntries:
        return ManifestEntries.from_rows(self.entries)

    @property
    def deletions(self) -> dict[tuple[bytes, int, str], DeletionFile]:
        """Deletion vectors of the files with `marked=yes`."""
        marked = [entry for entry in self.entries if self.has("marked", entry.file)]
        return {
            (entry.partition, entry.bucket, entry.file.file_name): DeletionFile(
                "index-0", DeletionRange(entry.file.file_name, 1, 10, 1)
            )
            for entry in marked
        }


def names(files: Iterable[DataFile]) -> str:
    return " ".join(sorted(file.file_name.removesuffix(".parquet") for file in files))


def merge_answer(case: Case) -> str:
    """Arguments are options of the table; the trigger is three sorted runs, so that the last level is 3."""
    files = Files(case.input)
    options = {"num-sorted-run.compaction-trigger": "3", **case.args}
    typed = TableOptions.from_schema(table_schema(options=options))
    expires = any("expired" in flags for flags in files.flags.values())
    request = PickRequest(
        strategy=Strategy(case.command),
        policy=TreePolicy.from_options(options, TARGET, lookup=typed.needs_lookup),
        key_of=KEY_OF,
        now_ms=0,
        mode=MergeMode.of(typed, lambda _: "parquet"),
        deletions=files.deletions,
        expired=(lambda file: files.has("expired", file)) if expires else None,
    )
    return "\n".join(map(pick_text, plan_picks(files.live, request))) or "nothing"


def pick_text(pick: BucketPick) -> str:
    groups = [[file for section in group for file in section.files] for group in pick.work.rewrites]
    parts = [f"merge {names(group)}" for group in groups]
    if groups:
        parts.append("drop deletes" if pick.drop_deletes else "keep deletes")
    parts += [f"move {names(pick.work.upgrades)}"] if pick.work.upgrades else []
    if pick.work.announced:
        parts.append(f"read {names(pick.work.announced)}")
    if pick.derivation is Derivation.LOOKUP and any(pick.above):
        parts.append(f"look up in {names([file for level in pick.above for file in level])}")
    if pick.derivation is Derivation.FULL:
        parts.append("compare with the last level")
    return f"bucket {pick.place.bucket} to level {pick.output_level} ({pick.reason}): {', '.join(parts)}"


def clustered_answer(case: Case) -> str:
    files = Files(case.input)

    def bounds(file: DataFile) -> tuple[int, int] | None:
        return files.ranges[file.file_name]

    request = ClusteredRequest(
        full=case.command == "full",
        everything=case.command == "everything",
        target_size=TARGET,
        bounds_of=bounds,
        cuts=CutPolicy(parallelism=1, target_file_size=TARGET),
        deletions=files.deletions,
    )
    found = plan_clustered(files.live, request)
    lines = [
        f"sort level 0: {names(one.fresh)}; above it: {names(one.above) or 'none'}" for one in found.fresh
    ]
    lines += [f"merge {names(one.files)} ({one.reason})" for one in found.sorts]
    return "\n".join(lines) or "nothing"


def postpone_answer(case: Case) -> str:
    """Lines: a file, when it was made, its partition; files with `buckets` have a bucket already."""
    if case.command == "units":
        files = (data_file("x", rows=int(case.args["rows"])),)
        return str(
            cut(PostponedFiles(EMPTY_ROW, int(case.args["buckets"]), files), int(case.args.get("idle", "0")))
        )
    entries = []
    for line in case.input:
        name, *pairs = line.split()
        values = {key: int(value) for key, value in (pair.split("=") for pair in pairs)}
        number = values.get("snapshot", 0)
        made = data_file(name, rows=values.get("rows", 10), sequence=(number, number))
        made = replace(made, creation_time=values.get("made", 0))
        partition = EMPTY_ROW[:-1] + bytes([values.get("partition", 0)])
        total = values.get("buckets", -2)
        entries.append(
            manifest_entry(made, partition=partition, bucket=0 if total > 0 else -2, total_buckets=total)
        )
    found = plan_partitions(
        ManifestEntries.from_rows(entries),
        lambda rows: 1 + rows // 100,
        snapshot_ordering="snapshot_ordering" in case.args,
    )
    lines = [
        f"partition {one.partition[-1]}, buckets {one.total_buckets}: {' '.join(f.file_name for f in one.files)}"
        for one in found
    ]
    return "\n".join(lines) or "nothing"


def rescale_answer(case: Case) -> str:
    match case.command:
        case "groups":
            old, new = int(case.args["old"]), int(case.args["new"])
            groups = bucket_groups(old, new, int(case.args.get("parts", "1")))
            return "\n".join(
                f"{' '.join(map(str, one.old))} -> {' '.join(map(str, one.new))}" for one in groups
            )
        case "count":
            options = {key: value for key, value in case.args.items() if key != "asked"}
            keys = () if "bucket-key" in options else ("k",)
            typed = TableOptions.from_schema(table_schema(primary_keys=keys, options=options))
            try:
                return str(
                    target_count("d.t", typed, int(case.args["asked"]) if "asked" in case.args else None)
                )
            except LakeError as err:
                return f"{type(err).__name__}: {err}"
    files: dict[int, list[DataFile]] = {}
    for entry in Files(case.input).entries:
        files.setdefault(entry.bucket, []).append(entry.file)
    found = layers_of(files, sorted(files), KEY_OF, keyed=case.command == "keyed")
    return "\n".join(
        f"level {layer.level}: "
        + ", ".join(
            f"{' '.join(file.file_name.removesuffix('.parquet') for file in run)} of bucket {bucket}"
            for bucket, run in layer.runs
        )
        for layer in found
    )


def queue_answer(case: Case) -> str:
    """Lines: `add TABLE COST …` (`!`: alone), `take SLOTS`, `drop TABLE`. What each `take` and `drop` gives."""
    queue, out, numbers = FairQueue(), [], dict[int, int]()
    for line in case.input:
        verb, first, *costs = line.split()
        if verb == "take":
            taken = queue.take(int(first))
            out.append(" ".join(f"{unit.stream}.{unit.number}" for unit in taken) or "nothing")
        elif verb == "drop":
            out.append(f"dropped {queue.drop(int(first))}")
        else:
            stream = int(first)
            start = numbers.get(stream, 0)
            numbers[stream] = start + len(costs)
            queue.add([
                QueuedUnit(stream, start + at, int(cost.rstrip("!")) * 1000, alone=cost.endswith("!"))
                for at, cost in enumerate(costs, 1)
            ])  # fmt: skip
    return "\n".join(out)


TABLES = {
    "merge_picks": merge_answer,
    "clustered_keys": clustered_answer,
    "postponed": postpone_answer,
    "rescale": rescale_answer,
    "fair_queue": queue_answer,
}


@pytest.mark.parametrize("name", TABLES)
def test_rules_of_compactions(name: str, rewrite: bool) -> None:
    datadriven.check(TESTDATA / f"{name}.txt", TABLES[name], rewrite)
