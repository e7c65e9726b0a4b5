"""This module decides which runs of a clustered table are put in order together: the rule of incremental
clustering. Pure.

Rule of the format: a new file is a run of its own on level 0, the files of a higher level are one run each,
and what universal compaction picks among them is put in order as a whole, by `clustering.columns`, on the
level that it says. A full clustering takes all runs to the last level, unless they are there already, with
the same columns. Of partitions that nobody asked for, those that were idle long enough are clustered fully.
The format leaves open which of these come first; here it is the ones that were idle longest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum

import numpy as np
import numpy.typing as npt

from lakecore.compact.engine.work import Place
from lakecore.compact.kinds.sort.plan import (
    INCREMENTAL,
    CutPolicy,
    SortPick,
    check_columns,
    cuts_of,
    deletions_of,
    var_bytes,
)
from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.lsm import universal
from lakecore.lsm.options import TreePolicy, UniversalPolicy
from lakecore.lsm.runs import LevelRun, Pick
from lakecore.metadata.manifest.entries import ManifestEntries
from lakecore.metadata.options import CLUSTERING_COLUMNS, BucketMode, TableOptions
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool, parse_duration_ms, parse_enum
from lakecore.row.sort_rule import OrderStrategy, SortRule
from lakecore.scan.change_scanner import Deletions

__all__ = ["ClusterPolicy", "ClusterRequest", "idle_places", "plan_clusters"]


class SortMode(Enum):
    """GLOBAL puts the rows of a pick in order as a whole. LOCAL sorts within each unit only."""

    GLOBAL = "global-sort"
    LOCAL = "local-sort"


STRATEGY = Option(
    "clustering.strategy",
    str,
    "auto",
    "Order of rows: auto, order, zorder or hilbert.",
    ("sink.clustering.strategy",),
)
MODE = Option(
    "clustering.incremental.mode",
    parse_enum(SortMode),
    SortMode.GLOBAL,
    "Scope within which rows are sorted.",
)
IDLE: Option[int | None] = Option(
    "clustering.history-partition.idle-to-full-sort",
    parse_duration_ms,
    None,
    "Time without writes after which a partition is clustered too.",
)
ORDERED = Option("bucket-append-ordered", parse_bool, True, "Whether buckets keep the order of rows.")
LIMIT = Option("clustering.history-partition.limit", int, 5, "Maximum number of such partitions in one run.")

_FEW_COLUMNS = 5

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPolicy:
    """A table is clustered by these options. `columns` are as its options name them. With `local`, rows
    are in order in each unit.

    `idle_ms` and `limit` are the time without new files after which a partition is included that was not
    requested, and how many of them; None: never.
    """

    rule: SortRule
    columns: tuple[str, ...]
    universal: UniversalPolicy
    max_level: int
    local: bool
    idle_ms: int | None
    limit: int

    @classmethod
    def of(cls, table: str, schema: TableSchema, options: TableOptions) -> ClusterPolicy:
        """Return the policy. Partition columns are left out of the order: they are equal in all rows of a
        partition.

        Raises UnsupportedError for tables whose rows cannot be put in order, InvalidInputError for columns
        that cannot order them, InvalidOptionError.
        """
        raw = schema.options
        _check_table(table, raw, options)
        column_names = CLUSTERING_COLUMNS.read(raw)
        columns = tuple(name for name in column_names if name not in schema.partition_keys)
        strategy = _strategy(STRATEGY.read(raw), len(column_names))
        if strategy is OrderStrategy.HILBERT and len(columns) == 1:
            strategy = OrderStrategy.ORDER  # the curve through one column
        if not columns:
            raise InvalidInputError(
                f"table {table}: option {INCREMENTAL.key}=true needs {CLUSTERING_COLUMNS.key}; name columns "
                "that are not partition columns"
            )
        check_columns(table, schema, strategy, columns)
        tree = TreePolicy.from_options(raw, options.target_file_size)
        return cls(
            rule=SortRule(strategy, columns, var_bytes(table, raw)),
            columns=column_names,
            universal=tree.universal,
            max_level=tree.num_levels - 1,
            local=MODE.read(raw) is SortMode.LOCAL,
            idle_ms=IDLE.read(raw),
            limit=LIMIT.read(raw),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRequest:
    """The rules for picks. `full` tells that all runs are merged to the last level; `columns_of` returns the
    clustering columns of the schema with this id.

    `history`: serialised partitions that are clustered fully, whatever `full` says. `bucketed`: the table has
    buckets, and so as many levels as its files lie on.
    """

    policy: ClusterPolicy
    full: bool
    columns_of: Callable[[int], tuple[str, ...]]
    cuts: CutPolicy
    history: Collection[bytes] = ()
    bucketed: bool = False


def plan_clusters(
    entries: ManifestEntries,
    deletions: Deletions,
    request: ClusterRequest,
    excluded_names: Collection[str] = (),
) -> tuple[SortPick, ...]:
    """Return a pick for every bucket of live `entries` that needs one, but those with a file named in
    `excluded_names`.

    Only picked files become objects.
    """
    cluster_picks = [
        (members, pick)
        for members in _buckets(entries)
        if (pick := _pick(entries, members, request)) is not None
    ]
    whole = sum(int(entries.file_size[members].sum()) for members, _ in cluster_picks)
    names = {name.encode() for name in excluded_names}
    picks = []
    for members, pick in cluster_picks:
        if names and not names.isdisjoint(entries.select(members).names()):
            continue
        chosen = _files_of_runs(entries, members, pick)
        part = entries.select(chosen)
        place = Place(part.partition_of(0), int(part.bucket[0]), int(part.total_buckets[0]))
        files = tuple(part.files())
        picks.append(
            SortPick(
                place=place,
                files=files,
                deletions=deletions_of(place, files, deletions),
                cuts=cuts_of(sum(file.file_size for file in files), whole, request.cuts),
                level=pick.output_level,
                local=request.policy.local,
                reason=pick.reason,
            )
        )
    return tuple(picks)


def idle_places(
    entries: ManifestEntries,
    requested_partitions: Collection[bytes],
    policy: ClusterPolicy,
    local_now_ms: int,
) -> frozenset[bytes]:
    """Return the partitions with files below the last level, none of these younger than the idle time, oldest
    first.

    `entries` are those of all partitions. `requested_partitions` are left out. `local_now_ms` is the time of
    the writers' wall clock. The cost is some 1 us for each file below the last level.
    """
    if policy.idle_ms is None:
        return frozenset()
    open_files = entries.select(entries.level < policy.max_level)
    newest = open_files.newest().tolist()
    limit = local_now_ms - policy.idle_ms
    present = np.unique(open_files.partition).tolist()
    times = ((newest[code], open_files.partitions[code]) for code in present)
    idle = sorted((time, key) for time, key in times if time < limit and key not in requested_partitions)
    return frozenset(key for _, key in idle[: max(policy.limit, 0)])


def _check_table(table: str, raw: Mapping[str, str], options: TableOptions) -> None:
    """Check the other options of a clustered table (rule of the format)."""
    bucketed = options.bucket_mode is not BucketMode.BUCKET_UNAWARE
    for forbidden, other in (
        (options.data_evolution, "data-evolution.enabled=true"),
        (bucketed and ORDERED.read(raw), "bucket-append-ordered=true in tables with buckets"),
        (bucketed and options.deletion_vectors, "deletion-vectors.enabled=true in tables with buckets"),
    ):
        if forbidden:
            raise UnsupportedError(
                f"table {table}: option {INCREMENTAL.key}=true cannot be combined with {other}; unset one of "
                "them"
            )


def _strategy(text: str, columns: int) -> OrderStrategy:
    """Return the strategy. Rule of the format for `auto`: it depends on the number of columns."""
    if text == STRATEGY.default:
        if columns == 1:
            return OrderStrategy.ORDER
        return OrderStrategy.ZORDER if columns < _FEW_COLUMNS else OrderStrategy.HILBERT
    try:
        strategy = OrderStrategy(text.strip().lower())
    except ValueError as err:
        raise InvalidOptionError(
            f"option {STRATEGY.key}={text!r}: must be auto, order, zorder or hilbert"
        ) from err
    if strategy is OrderStrategy.NONE:
        raise InvalidOptionError(f"option {STRATEGY.key}={text!r}: must be auto, order, zorder or hilbert")
    return strategy


def _buckets(entries: ManifestEntries) -> Iterator[Ints]:
    """Yield the places of the entries of each bucket, by first sequence number, then as manifests have
    them.
    """
    bucket = (entries.partition.astype(np.int64) << 32) | (entries.bucket.astype(np.int64) & 0xFFFFFFFF)
    order = np.lexsort((entries.min_sequence, bucket))
    starts = np.flatnonzero(np.diff(bucket[order])) + 1
    yield from np.split(order, starts) if len(order) else ()


def _pick(entries: ManifestEntries, members: Ints, request: ClusterRequest) -> Pick | None:
    policy = request.policy
    full = request.full or entries.partitions[int(entries.partition[members[0]])] in request.history
    levels = entries.level[members]
    if not full and len(members) < policy.universal.run_trigger:
        return None
    runs = _runs(levels, entries.file_size[members])
    top = max(policy.max_level, int(levels.max())) if request.bucketed else policy.max_level
    if not full:
        return universal.pick(runs, policy.universal, top)
    if len(runs) == 1 and runs[0].level == top:
        schema_id = int(entries.schema_id[members[0]])
        if request.columns_of(schema_id) == policy.columns:
            return None
    return Pick(len(runs), top, "full")


def _runs(levels: Ints, sizes: Ints) -> list[LevelRun]:
    """Return runs without their files: those of level 0 in their order, then level by level."""
    runs = [LevelRun(0, size) for size in sizes[levels == 0].tolist()]
    upper = np.unique(levels[levels > 0]).tolist()
    return runs + [LevelRun(level, int(sizes[levels == level].sum())) for level in upper]


def _files_of_runs(entries: ManifestEntries, members: Ints, pick: Pick) -> Ints:
    """Return the places of the files of the first `pick.count` runs."""
    levels = entries.level[members]
    fresh, upper = members[levels == 0], np.unique(levels[levels > 0])
    runs = upper[: max(pick.count - len(fresh), 0)]
    return np.concatenate([fresh[: pick.count], *(members[levels == level] for level in runs)])
