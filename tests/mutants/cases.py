"""Tables that a compaction can go wrong on, and the jobs that compact them.

Every table is made by lakecore itself, small, with the same rows each time; a table may have several jobs, each of which
works on a copy of its own. Imports of lakecore are inside the functions: the process that runs them decides which.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.mutants.keyed_tables import (
    aggregates,
    apart_files,
    avro_levels,
    cut,
    cut_sums,
    cut_vectors,
    deduplicate,
    descending,
    dynamic,
    evolved,
    expiring,
    first_row,
    first_row_told,
    full_changes,
    ignored_deletes,
    key_types,
    last_level,
    levels,
    lookup,
    lookup_aggregates,
    lookup_sequence,
    many_fresh_runs,
    many_manifests,
    many_runs,
    many_sums,
    own_keys,
    partial,
    partial_groups,
    postponed,
    removed_records,
    retractions,
    sequence,
    snapshot_order,
    thin_orc,
    vector_sums,
    vectors,
)
from tests.mutants.other_tables import (
    append,
    append_buckets,
    behind_large,
    blobs,
    clustered_keys,
    clustering,
    clustering_local,
    column_files,
    evolved_told,
    expiring_told,
    groups_told,
    in_order_parts,
    indexed,
    rescaled,
    rescaled_vectors,
    row_kinds,
    tracked,
    tracked_unsorted,
    unsorted,
)
from tests.mutants.table_steps import Make

__all__ = ["CASES", "TABLES", "Case", "few_runs_open", "run_case"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One job on a copy of `table`. `ordered`: its rows have an order. `told`: its change stream is compared too.

    `cores`: what the executor says it has. `passes`: few runs may be open at once. `kind`: which job it is.
    """

    name: str
    table: str
    job: dict[str, Any] = field(default_factory=dict)
    kind: str = "compact"
    ordered: bool = False
    told: bool = False
    cores: int = 1
    passes: bool = False


FULL, UNIVERSAL = {"strategy": "full"}, {"strategy": "universal"}
CUT = {"options": {"target-file-size": "16 kb"}}


_SETTLED = {"lakecore.commit.settle-time": "1 ms"}
"""No other writer is there to wait for; that the snapshot stays is looked at all the same."""


def run_case(lake: Any, case: Case, name: str) -> tuple[str, ...]:
    """The job of a case on the table `name`; what it left undone. Raises what the job raises."""
    if case.kind == "rescale":
        from lakecore.jobs import rescale

        rescale.run(rescale.Job(table=name, **case.job), lake)
        return ()
    from lakecore.jobs import compact

    options = {**_SETTLED, **case.job.get("options", {})}
    job = compact.Job.from_json({"table": name, "commit_user": "battery", **case.job, "options": options})
    with few_runs_open(case.passes):
        return compact.run(job, lake, _executor(case.cores)).dropped


def _executor(cores: int) -> Any:
    from lakecore.executor import SerialExecutor

    class Cores(SerialExecutor):
        """Runs units one by one, but says that it has cores, so that merges are cut."""

        name = "cores"
        parallelism = cores

    return SerialExecutor() if cores == 1 else Cores()


@contextmanager
def few_runs_open(wanted: bool) -> Iterator[None]:
    """At most three runs may be open, whatever their size."""
    from lakecore.compact.kinds.primary_key import inputs
    from lakecore.merge import passes

    limits = [(inputs, "_FEW_RUNS", 1), (inputs, "_SMALL_FILE", 0)]
    limits += [(passes, "_FEWEST_RUNS", 3), (passes, "_PAGES_BUDGET", 0)]
    before = [getattr(module, name) for module, name, _ in limits]
    try:
        for module, name, value in limits if wanted else ():
            setattr(module, name, value)
        yield
    finally:
        for (module, name, _), value in zip(limits, before, strict=True):
            setattr(module, name, value)


TABLES: dict[str, Make] = {
    make.__name__: make
    for make in (
        deduplicate, levels, last_level, apart_files, sequence, descending, key_types, ignored_deletes, partial,
        partial_groups, aggregates, retractions, removed_records, first_row, first_row_told, lookup, lookup_sequence,
        lookup_aggregates, full_changes, vectors, vector_sums, cut, cut_vectors, cut_sums, many_runs, many_fresh_runs,
        many_sums, expiring, postponed, dynamic, snapshot_order, thin_orc, avro_levels, evolved, many_manifests, append,
        append_buckets, own_keys, tracked, column_files, blobs, unsorted, in_order_parts, clustering, clustered_keys, rescaled,
        rescaled_vectors, behind_large, row_kinds, indexed, expiring_told, groups_told, evolved_told, clustering_local,
        tracked_unsorted,
    )
}  # fmt: skip
"""What makes each table, given a catalog and the table's name."""

_TOLD = {
    "first_row_told",
    "lookup",
    "lookup_sequence",
    "lookup_aggregates",
    "full_changes",
    "many_fresh_runs",
    "expiring_told",
    "groups_told",
    "evolved_told",
}
_BOTH = {
    "deduplicate", "levels", "last_level", "apart_files", "sequence", "aggregates", "first_row", "first_row_told", "lookup",
    "lookup_sequence", "lookup_aggregates", "full_changes", "vectors", "vector_sums", "snapshot_order", "avro_levels",
    "append", "append_buckets", "clustered_keys", "row_kinds", "groups_told", "evolved_told",
}  # fmt: skip
_ORDERED = {"append_buckets", "behind_large"}
_CUT = {"cut", "cut_vectors", "cut_sums"}
_PASSES = {"many_runs", "many_fresh_runs", "many_sums"}
_ELSEWHERE = {
    "own_keys",
    "unsorted",
    "in_order_parts",
    "clustering",
    "rescaled",
    "rescaled_vectors",
    "cut_vectors",
    "clustering_local",
}


def _cases() -> Iterator[Case]:
    for table in TABLES:
        told = table in _TOLD
        if table not in _ELSEWHERE:
            job = FULL | CUT if table in _CUT else FULL
            cores = 2 if table in _CUT else 1
            yield Case(name=f"{table}_full", table=table, job=job, told=told, cores=cores, passes=table in _PASSES,
                       ordered=table in _ORDERED)  # fmt: skip
        if table in _BOTH:
            yield Case(name=f"{table}_some", table=table, job=UNIVERSAL, told=told, ordered=table in _ORDERED)
    yield Case(name="cut_vectors_some", table="cut_vectors", job=UNIVERSAL | CUT, cores=2)
    yield Case(name="lookup_forced", table="lookup", told=True, job=FULL | {
        "options": {"compaction.force-rewrite-all-files": "true"}})  # fmt: skip
    for table in ("append", "append_buckets", "own_keys"):
        ordered, job = table in _ORDERED, {"copy": "all"}
        yield Case(name=f"{table}_copies", table=table, job=FULL | job, ordered=ordered)
        yield Case(name=f"{table}_copies_some", table=table, job=UNIVERSAL | job, ordered=ordered)
    for strategy in ("order", "zorder"):
        job = {"order_strategy": strategy, "order_by": ["a", "b"], "options": {"target-file-size": "1 kb"}}
        yield Case(name=f"unsorted_{strategy}", table="unsorted", job=job, cores=2)
    job = {"order_strategy": "order", "order_by": ["a"], "options": {"target-file-size": "500 b"}}
    yield Case(name="in_order_parts_order", table="in_order_parts", job=job, cores=4)
    yield Case(name="clustering_some", table="clustering", job=UNIVERSAL)
    yield Case(name="clustering_full", table="clustering", job=FULL, cores=2)
    yield Case(name="clustering_local_full", table="clustering_local", job=FULL, cores=2)
    job = {"order_strategy": "order", "order_by": ["a"], "options": {"target-file-size": "1 kb"}}
    yield Case(name="tracked_unsorted_order", table="tracked_unsorted", job=job, cores=2)
    yield Case(name="rescaled_more", table="rescaled", kind="rescale", job={"bucket_num": 3})
    yield Case(name="rescaled_less", table="rescaled", kind="rescale", job={"bucket_num": 1})
    yield Case(name="rescaled_vectors_more", table="rescaled_vectors", kind="rescale", job={"bucket_num": 4})


_TELLING = (
    "levels_some", "last_level_some", "lookup_some", "cut_vectors_some", "vectors_full", "append_full", "append_buckets_full",
    "aggregates_full", "partial_groups_full", "sequence_full", "row_kinds_some", "evolved_told_some", "groups_told_some",
    "expiring_told_full", "behind_large_full", "indexed_full", "vectors_some", "descending_full", "rescaled_more",
    "postponed_full", "unsorted_order", "many_manifests_full", "deduplicate_full", "column_files_full",
    "first_row_told_some", "full_changes_full", "lookup_aggregates_some", "apart_files_full", "cut_full",
    "vector_sums_full", "vector_sums_some", "rescaled_vectors_more", "clustered_keys_some", "clustering_full",
    "own_keys_copies", "append_buckets_copies", "append_copies", "expiring_full", "evolved_full", "many_runs_full", "many_fresh_runs_full",
)  # fmt: skip
"""The cases that notice most, first: the runner takes the first ones that call the function with the bug."""


def _rank(case: Case) -> int:
    return _TELLING.index(case.name) if case.name in _TELLING else len(_TELLING)


CASES: dict[str, Case] = {case.name: case for case in sorted(_cases(), key=_rank)}
