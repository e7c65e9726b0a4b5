"""One-line bugs between the proof and the commit: the commit check refuses them, and the table stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from lakecore.catalog.filesystem import FilesystemCatalog
from lakecore.compact.engine import commit, driver
from lakecore.compact.engine import deletion_vectors as vectors
from lakecore.errors import ProofError
from lakecore.executor import SerialExecutor
from lakecore.jobs import compact
from lakecore.jobs.compact import Strategy
from lakecore.metadata.commit_message import CommitMessage
from lakecore.metadata.options import ChangelogProducer, MergeEngine, SequenceOrder, TableOptions
from lakecore.metadata.row_kind import RowKind
from lakecore.store.vector_files import replace_vectors
from lakecore.table import Table
from lakecore.verify.fsck.check import fsck
from lakecore.verify.fsck.findings import FindingKind
from tests.support.lake import append_table, key_table, memory_catalog, paths_of, put

LOOKUP = {"changelog_producer": "lookup"}
VECTORS = {
    "deletion_vectors__enabled": "true",
    "compaction__max_size_amplification_percent": "100000",
    "compaction__size_ratio": "0",
    "target_file_size": "100 kb",
}
Fault = Callable[[pytest.MonkeyPatch], None]


class Wide(SerialExecutor):
    """Runs units one after another, and says that it could run several."""

    parallelism = 4


def message(change: Callable[[CommitMessage], CommitMessage]) -> Fault:
    """What is given to the committer, spoilt."""
    right = commit._message
    return lambda patch: patch.setattr(commit, "_message", lambda proven: change(right(proven)))


def moved_to_another_bucket(found: CommitMessage) -> CommitMessage:
    return replace(found, bucket=found.bucket + 1, total_buckets=found.total_buckets + 1)


FILES: dict[str, Callable[[CommitMessage], CommitMessage]] = {
    "a new file is left out": lambda m: replace(m, compact_after=m.compact_after[1:]),
    "a replaced file stays": lambda m: replace(m, compact_before=m.compact_before[1:]),
    "a new file comes twice": lambda m: replace(m, compact_after=(*m.compact_after, m.compact_after[0])),
    "a replaced file goes twice": lambda m: replace(
        m, compact_before=(*m.compact_before, m.compact_before[0])
    ),
    "an input comes again": lambda m: replace(m, compact_after=(*m.compact_after, m.compact_before[0])),
    "another file goes too": lambda m: replace(
        m, compact_before=(*m.compact_before, replace(m.compact_before[0], file_name="data-other"))
    ),
    "another bucket": moved_to_another_bucket,
    "another number of buckets": lambda m: replace(m, total_buckets=m.total_buckets + 1),
    "another level": lambda m: replace(
        m, compact_after=tuple(replace(file, level=1) for file in m.compact_after)
    ),
    "another sequence number": lambda m: replace(
        m, compact_after=tuple(replace(file, max_sequence_number=0) for file in m.compact_after)
    ),
    "another row count": lambda m: replace(
        m, compact_after=tuple(replace(file, row_count=file.row_count + 1) for file in m.compact_after)
    ),
    "as a write": lambda m: replace(m, new_files=m.compact_after, compact_after=()),
    "the changelog is left out": lambda m: replace(m, compact_changelog=()),
    "the changelog comes twice": lambda m: replace(m, compact_changelog=m.compact_changelog * 2),
    "the changelog is another file": lambda m: replace(m, compact_changelog=m.compact_after),
    "nothing that was looked up is named": lambda m: replace(m, compact_required_files=()),
}


def small(catalog: FilesystemCatalog) -> Table:
    """Rows on level 5, changed ones on level 0; a compaction announces, and looks up."""
    table = key_table(catalog, **LOOKUP, **{key: VECTORS[key] for key in list(VECTORS)[1:3]})
    put(table, [{"k": k, "v": f"{k * 7919 % 10007}" * 20} for k in range(200)])
    compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)
    put(table, [{"k": k, "v": "b"} for k in range(0, 40, 2)])
    return table


def refused(catalog: FilesystemCatalog, table: Table, match: str, fault: Fault, job: compact.Job) -> None:
    """The job is refused with the fault and changes nothing; without it, it is done."""
    before = paths_of(table, "")
    latest = table._stores.snapshots.latest_id()
    with pytest.MonkeyPatch.context() as patch:
        fault(patch)
        with pytest.raises(ProofError, match=match):
            compact.run(job, catalog, Wide())
    assert table._stores.snapshots.latest_id() == latest
    assert {path for path in paths_of(table, "") if "/manifest/" not in path} == {
        path for path in before if "/manifest/" not in path
    }
    assert compact.run(job, catalog, Wide()).picks_done > 0
    found = fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=True).findings
    assert [f for f in found if f.kind is not FindingKind.HINT] == []


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_not_those_proven_are_refused(name: str) -> None:
    catalog = memory_catalog("commit-check")
    refused(catalog, small(catalog), "bucket", message(FILES[name]), compact.Job(table="d.k"))


@pytest.mark.parametrize("name", ["a new file is left out", "a replaced file stays", "another bucket"])
def test_the_same_for_files_without_a_key(name: str) -> None:
    catalog = memory_catalog("commit-check")
    table = append_table(catalog)
    put(table, *([{"v": n, "p": "x"}] for n in range(12)))
    refused(catalog, table, "bucket", message(FILES[name]), compact.Job(table="d.a", strategy=Strategy.FULL))


def test_a_file_that_two_picks_add_is_refused() -> None:
    catalog = memory_catalog("commit-check")
    table = append_table(catalog, ("v INT", "p STRING"), ("p",))
    put(table, *([{"v": n, "p": "x"}, {"v": n, "p": "y"}] for n in range(12)))
    seen: list[CommitMessage] = []

    def doubled(found: CommitMessage) -> CommitMessage:
        seen.append(found)
        return replace(found, compact_after=(*found.compact_after, *seen[0].compact_after[: len(seen) - 1]))

    job = compact.Job(table="d.a", strategy=Strategy.FULL)
    with pytest.MonkeyPatch.context() as patch:
        message(doubled)(patch)
        with pytest.raises(ProofError, match="but no proof covers it"):
            compact.run(job, catalog)
    assert [
        f
        for f in fsck(table._stores.file_io, table._stores.paths, now_ms=0).findings
        if f.kind is FindingKind.ORPHAN
    ] == []


def wide_table(catalog: FilesystemCatalog) -> Table:
    """A large file on level 5 whose rows several units mark."""
    table = key_table(catalog, **VECTORS)
    keys = pa.array(range(60_000), pa.int32())
    large = table.with_options({"target-file-size": "100 mb"})
    large.upsert(pa.table({"k": keys, "v": [f"{k * 2654435761 % 2**32}" for k in range(60_000)]}))
    job = compact.Job(table="d.k", strategy=Strategy.FULL, options={"target-file-size": "100 mb"})
    compact.run(job, catalog)
    some = list(range(0, 60_000, 3))
    table.upsert(pa.table({"k": pa.array(some, pa.int32()), "v": [f"{k * 40503 % 2**32}" for k in some]}))
    return table


def overwriting(results: Any) -> dict[str, bytes]:
    """Marks of a unit take the place of another's on the same file."""
    return {name: positions for result in results for name, positions in result.lookups.items()}


def one_more(results: Any) -> dict[str, bytes]:
    (name,) = results[0].lookups
    rows = BitMap()
    for result in results:
        rows |= BitMap.deserialize(result.lookups[name])
    return {name: (rows | BitMap([1])).serialize()}


def forgets_old_rows(store: Any, place: Any, files: Any, gone: Any, marks: Any, **kind: bool) -> Any:
    """A new vector takes the place of the old one of the same file."""
    new, old = replace_vectors(store, place, (), gone, marks, **kind)
    return new, tuple(files) if new else old


MARKS: dict[str, Fault] = {
    "a unit's marks overwrite another's": lambda patch: patch.setattr(driver, "_marks", overwriting),
    "a row too many is marked": lambda patch: patch.setattr(driver, "_marks", one_more),
    "nothing is marked": lambda patch: patch.setattr(driver, "_marks", lambda _: {}),
}


@pytest.mark.parametrize("name", MARKS)
def test_marks_that_were_not_proven_are_refused(name: str) -> None:
    catalog = memory_catalog("commit-check")
    table = wide_table(catalog)
    refused(catalog, table, "deletion vector", MARKS[name], compact.Job(table="d.k"))


def test_rows_that_were_marked_before_stay_marked() -> None:
    catalog = memory_catalog("commit-check")
    table = key_table(catalog, **VECTORS)
    put(table, [{"k": k, "v": f"{k * 7919 % 10007}" * 20} for k in range(200)])
    compact.run(compact.Job(table="d.k", strategy=Strategy.FULL), catalog)
    put(table, [{"k": 1, "v": "b"}])
    compact.run(compact.Job(table="d.k"), catalog)
    put(table, [{"k": 2, "v": "b"}])

    def fault(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(vectors, "replace_vectors", forgets_old_rows)

    refused(catalog, table, "deletion vector", fault, compact.Job(table="d.k"))


def option(**wrong: Any) -> Fault:
    """An option of the table is taken for something else."""
    right = TableOptions.from_schema.__func__  # type: ignore[attr-defined]
    made = classmethod(lambda cls, schema: replace(right(cls, schema), **wrong))
    return lambda patch: patch.setattr(TableOptions, "from_schema", made)


OPTIONS: dict[str, tuple[dict[str, str], Fault]] = {
    "sequence.field.sort-order": (
        {"sequence_field": "v", "sequence_field__sort_order": "descending"},
        option(sequence_order=SequenceOrder.ASCENDING),
    ),
    "sequence.field": ({"sequence_field": "v"}, option(sequence_fields=())),
    "ignore-delete": ({"deduplicate__ignore_delete": "true"}, option(ignore_delete=False)),
    "merge-engine": ({"merge_engine": "first-row"}, option(merge_engine=MergeEngine.DEDUPLICATE)),
    "changelog-producer": (
        {"force_lookup": "true", **LOOKUP},
        option(changelog_producer=ChangelogProducer.NONE),
    ),
    "deletion-vectors.enabled": (VECTORS, option(deletion_vectors=False)),
    "record-level.expire-time": (
        {"record_level__expire_time": "1 h", "record_level__time_field": "k"},
        option(record_expire_ms=3600),
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_is_misread_is_refused(name: str) -> None:
    raw, fault = OPTIONS[name]
    raw = {"sequence.field": "v", **raw} if "sequence" in name else raw
    catalog = memory_catalog("commit-check")
    table = key_table(catalog, **{key.replace("sequence_field", "sequence__field"): raw[key] for key in raw})
    put(table, *([{"k": k, "v": f"{n}"} for k in range(9)] for n in range(3)))
    refused(catalog, table, f"option {name}: ", fault, compact.Job(table="d.k", strategy=Strategy.FULL))


def test_row_kinds_that_were_swapped_are_refused() -> None:
    catalog = memory_catalog("commit-check")
    table = key_table(catalog)
    put(table, *([{"k": k, "v": f"{n}"} for k in range(9)] for n in range(3)))

    def swapped(kind: RowKind) -> str:
        return ("+I", "+U", "-U", "-D")[kind]

    def fault(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(RowKind, "symbol", property(swapped))

    refused(catalog, table, "row kinds", fault, compact.Job(table="d.k", strategy=Strategy.FULL))
