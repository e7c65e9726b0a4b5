"""This module decides how healthy a table is, and when it will be due. Pure.

A table begins with 100 points. Each rule below takes points, never more than its limit, and says why. A
table is due below `DUE_BELOW` points and sick below `SICK_BELOW`. One bucket with as many sorted runs (or
as many small files) as start a compaction of Paimon's own writers makes a table due, and so do postponed
files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakecore.data_class import dataclass
from lakecore.display import size_text
from lakecore.maintain.survey.record import DAYS, DayPoint, Deduction, Figures, State
from lakecore.types.counted import counted

__all__ = [
    "DAY_MS",
    "DUE_BELOW",
    "SICK_BELOW",
    "HealthRules",
    "due_in_days",
    "health",
    "state_of",
    "with_day",
]

DAY_MS = 86_400_000
DUE_BELOW = 95
SICK_BELOW = 60

_FEW_MANIFESTS = 30
"""The default of `manifest.merge-min-count`: fewer are not merged by writers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules:
    """These are the options of a table that say when maintenance is due."""

    run_trigger: int
    """It is `num-sorted-run.compaction-trigger`."""
    min_files: int
    """It is `compaction.min.file-num`."""
    manifest_target: int
    """It is `manifest.target-file-size` in bytes."""
    snapshots_max: int
    """It is `snapshot.num-retained.max`."""
    snapshots_min: int
    """It is `snapshot.num-retained.min`."""
    retained_ms: int
    """It is `snapshot.time-retained` in milliseconds."""


def health(figures: Figures, rules: HealthRules, now_ms: int) -> tuple[int, tuple[Deduction, ...]]:
    """Return the score and the deductions, the largest first."""
    deductions = [one for one in _deductions(figures, rules, now_ms) if one.points > 0]
    ordered = tuple(sorted(deductions, key=lambda one: (-one.points, one.rule)))
    return max(0, 100 - sum(one.points for one in ordered)), ordered


def state_of(score: int) -> State:
    """Return the state of a table that can be read and is not on hold."""
    if score < SICK_BELOW:
        return State.SICK
    return State.DUE if score < DUE_BELOW else State.OK


def _deductions(figures: Figures, rules: HealthRules, now_ms: int) -> Iterator[Deduction]:
    yield _sorted_runs(figures, rules)
    yield _small_files(figures, rules)
    yield _postponed_deduction(figures)
    yield _deleted_rows(figures)
    yield _snapshots(figures, rules, now_ms)
    yield _history(figures, rules)
    yield _manifests(figures, rules)


def _sorted_runs(figures: Figures, rules: HealthRules) -> Deduction:
    """Take 10 points for a run more than the trigger, from which on every universal compaction picks some,
    and up to 45 for three times as many.
    """
    runs, trigger = figures.sorted_runs, max(1, rules.run_trigger)
    points = 0 if runs <= trigger else 10 + min(35, round(35 * (runs - trigger) / (2 * trigger)))
    text = (
        f"more than {trigger} sorted runs in {figures.due_buckets} of {counted(figures.buckets, 'bucket')}, "
        f"{runs} in one of them (num-sorted-run.compaction-trigger={trigger})"
    )
    return Deduction("sorted-runs", points, text)


def _small_files(figures: Figures, rules: HealthRules) -> Deduction:
    """Take 10 points when a bucket has enough small files for a compaction, and up to 45 when the buckets
    have ten times as many.
    """
    due, enough = figures.due_buckets, max(1, rules.min_files)
    if figures.has_key or not due:
        return Deduction("small-files", 0, "")
    each = figures.small_files / due
    over = min(35, max(0, round(35 * (each - enough) / (9 * enough))))
    text = (
        f"{enough} or more small files in {due} of {counted(figures.buckets, 'bucket')}; "
        f"{figures.small_files} of {counted(figures.files, 'file')} are small "
        f"(compaction.min.file-num={enough})"
    )
    return Deduction("small-files", 10 + over, text)


def _postponed_deduction(figures: Figures) -> Deduction:
    text = f"a compaction is needed to read {counted(figures.postponed_files, 'file')} of postponed buckets"
    return Deduction("postponed-files", 20 if figures.postponed_files else 0, text)


def _deleted_rows(figures: Figures) -> Deduction:
    """Take up to 20 points from a tenth of deleted rows on; half of them take all."""
    share = figures.deleted_rows / figures.rows if figures.rows else 0.0
    points = 0 if share < 0.1 else min(20, round(40 * share))
    return Deduction("deleted-rows", points, f"{100 * share:.0f} % of {figures.rows} rows are deleted")


def _snapshots(figures: Figures, rules: HealthRules, now_ms: int) -> Deduction:
    """Take 6 points for snapshots that should have expired, and one for each day since, up to 15.

    A snapshot that is older than twice the retention time counts: an hour more is no neglect.
    """
    over = figures.snapshots - rules.snapshots_max
    age = now_ms - figures.oldest_ms if figures.oldest_ms is not None else 0
    late_ms = age - 2 * rules.retained_ms if figures.snapshots > rules.snapshots_min else 0
    if over <= 0 and late_ms < DAY_MS:
        return Deduction("expired-snapshots", 0, "")
    text = (
        f"{counted(figures.snapshots, 'snapshot')}, the oldest of {age / DAY_MS:.1f} days "
        f"(snapshot.time-retained={rules.retained_ms / 3_600_000:.1f} h)"
    )
    return Deduction("expired-snapshots", min(15, 6 + max(0, late_ms) // DAY_MS), text)


def _history(figures: Figures, rules: HealthRules) -> Deduction:
    """Take 6 points when old snapshots need more bytes than the table has, and 10 when they need three times
    as many; only 3 where the options retain all of them, because no expiry would free a byte.
    """
    history_bytes, live = figures.history_bytes or 0, max(1, figures.bytes)
    points = 10 if history_bytes > 3 * live else 6 if history_bytes > live else 0
    if figures.snapshots <= rules.snapshots_min:
        points = min(points, 3)
    text = f"only older snapshots need {size_text(history_bytes)}; the table has {size_text(figures.bytes)}"
    return Deduction("history", points, text)


def _manifests(figures: Figures, rules: HealthRules) -> Deduction:
    many = figures.manifests > _FEW_MANIFESTS
    mean = figures.manifest_bytes / figures.manifests if figures.manifests else 0
    small = many and mean < rules.manifest_target / 8
    text = f"{figures.manifests} manifests of {mean:.0f} bytes each on average"
    return Deduction("small-manifests", 6 if small else 0, text)


def with_day(days: Sequence[DayPoint], point: DayPoint) -> tuple[DayPoint, ...]:
    """Return the points with `point` in place of an earlier one of its day (UTC), without those too old."""
    day = point.time_ms // DAY_MS
    recent = [one for one in days if day - DAYS < one.time_ms // DAY_MS < day]
    return (*recent, point)


def due_in_days(days: Sequence[DayPoint]) -> float | None:
    """Return in how many days the score falls below `DUE_BELOW`, on the line of the points since it last
    rose; 0 for a table that is due; None when it does not fall, or three points are not there.
    """
    if not days:
        return None
    if days[-1].score < DUE_BELOW:
        return 0.0
    rose = [at for at in range(1, len(days)) if days[at].score > days[at - 1].score]
    tail = days[rose[-1] if rose else 0 :]
    if len(tail) < 3:
        return None
    times = [(one.time_ms - tail[0].time_ms) / DAY_MS for one in tail]
    middle, mean = sum(times) / len(times), sum(one.score for one in tail) / len(tail)
    spread = sum((time - middle) ** 2 for time in times)
    if not spread:
        return None
    pairs = zip(times, tail, strict=True)
    slope = sum((time - middle) * (one.score - mean) for time, one in pairs) / spread
    if slope >= 0:
        return None
    return round(max(0.0, (tail[-1].score - DUE_BELOW + 1) / -slope), 1)
