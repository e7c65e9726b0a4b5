"""The tables of figures in the README and in docs/performance.md, made from `docs/figures/*.json`: `python -m tests.bench.readme [--check]`.

A table lies between `<!-- figures: NAME -->` and `<!-- end of figures: NAME -->`; the text around is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.bench import scale_tables
from tests.bench.figures import FIGURES, ROOT

__all__ = ["PAGES", "TABLES", "with_figures"]

Case = Mapping[str, Any]
COMPACTIONS = {
    "pk1": ("one bucket (cut in two)", 2.5),
    "pk4": ("four buckets", 2.5),
    "app": ("append, 400 files", 2.5),
    "app_12": ("append, 12 files", 2.5),
    "seq1_10": ("keys in order of time", 2.5),
    "late1_10": ("the same, late updates", 2.5),
    "top1_5": ("one large file, late updates", 2.5),
    "flat1_5": ("one large file, uniform updates", 2.5),
    "large1_5": ("one large file of one row group, late updates", 2.5),
    "pu4": ("partial-update", 2.0),
    "agg4": ("aggregation", 2.0),
    "lkp4": ("lookup changelog", 2.0),
}
"""Title of each case and the ratio of rows per second that is aimed at."""
READS = {
    "app": ("append", 1.0),
    "pk1": ("one bucket, 5 runs", 2.5),
    "pk4_1": ("one run", 1.0),
    "pk4_3": ("3 runs", 2.5),
    "pk4": ("5 runs", 2.5),
    "app_12": ("append, 12 files", 2.5),
    "seq1_10": ("keys in order of time", 2.5),
    "late1_10": ("the same, late updates", 2.5),
    "pu4": ("partial-update, 5 runs", 2.5),
    "agg4": ("aggregation, 5 runs", 2.5),
}
WRITES = {"app": ("append", 1.0), "pk4_1": ("primary key, four buckets", 1.0)}
SIDES = ("java", "rust", "lakecore")
SPARK_IO = {
    "app": ("reading: append, 400 files", 1.0),
    "pk1": ("one bucket, 5 runs", 1.5),
    "pk4": ("four buckets, 5 runs", 1.5),
    "pk4_1": ("four buckets, one run", 1.0),
    "app_to_spark": ("append, 400 files, `Scan.to_spark`", 1.0),
    "pk4_1_to_spark": ("four buckets, one run, `Scan.to_spark`", 1.0),
    "into_append": ("writing: append", 1.0),
    "into_keyed": ("four buckets with a key", 1.5),
}
PAGES = ("README.md", "docs/performance.md", "docs/scale.md")
"""The pages that have tables of figures."""
AIMED_CPU = 1.55
_BLOCK = re.compile(
    r"(<!-- figures: (?P<name>[a-z-]+) -->\n).*?(<!-- end of figures: (?P=name) -->)", re.DOTALL
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail when a page is not up to date")
    check = parser.parse_args().check
    for name in PAGES:
        old = (ROOT / name).read_text()
        new = with_figures(old)
        if check and old != new:
            sys.exit(f"{name} is not what its figures say: run make figures")
        (ROOT / name).write_text(new)


def with_figures(text: str) -> str:
    """The text with every table made anew. Raises ValueError for a table that nobody can make."""
    return _BLOCK.sub(lambda block: block[1] + _table(block["name"]) + block[3], text)


def _table(name: str) -> str:
    if name not in TABLES:
        raise ValueError(f"no table of figures is called {name!r}; tables are {', '.join(TABLES)}")
    return TABLES[name]() + "\n"


def compactions() -> str:
    found = _load("compact")
    cases = found["figures"]["cases"]
    aims = [COMPACTIONS[one["case"]][1] for one in cases]
    series = found["figures"].get("series")
    lines = [
        _row("compaction", map(_compaction_title, cases)),
        "|---" * (len(cases) + 1) + "|",
        _row("warm, wall s: Java / lakecore", (_pair(one, "seconds") for one in cases)),
        _row(
            "rows per second, lakecore : Java (aim 2.5, the last three 2)",
            (
                _met(one["rows_ratio"] >= aim, f"{one['rows_ratio']:.1f}")
                for one, aim in zip(cases, aims, strict=True)
            ),
        ),
    ]
    if series:
        ranges = [one["rows_ratio_of_all_series"] for one in cases]
        cells = (
            _met(low >= aim, f"{low:.1f} to {high:.1f}")
            for (low, high), aim in zip(ranges, aims, strict=True)
        )
        lines.append(_row(f"… in all series ({series})", cells))
    lines += [
        _row(
            "from process start, s: Java / lakecore (aim: faster)",
            (
                _met(
                    one["lakecore"]["cold_seconds"] < one["java"]["cold_seconds"], _pair(one, "cold_seconds")
                )
                for one in cases
            ),
        ),
        _row("CPU s: Java / lakecore", (_pair(one, "cpu") for one in cases)),
        _row(
            f"CPU, lakecore : pyarrow reading and writing as many rows (aim {AIMED_CPU})",
            map(_cpu_to_floor, cases),
        ),
        _row("peak MB: Java / a worker + JVM", map(_peaks, cases)),
    ]
    return "\n".join([*lines, "", _measured(found)])


def _compaction_title(one: Case) -> str:
    """Its title; of append tables, whose files can all be copied, it says when nothing was."""
    decoded = one["case"].startswith("app") and one["copy"] != "large"
    return COMPACTIONS[one["case"]][0] + (", `--copy none`" if decoded else "")


def reads() -> str:
    return _of_three_sides("read", READS, "reading", "aim 1, merging 2.5")


def writes() -> str:
    return _of_three_sides("write", WRITES, "writing", "aim 1")


def _of_three_sides(name: str, titles: Mapping[str, tuple[str, float]], doing: str, aim: str) -> str:
    """Return the table of what a bench measured of Java, Rust and lakecore on the same rows."""
    found = _load(name)
    cases = found["figures"]["cases"]

    def ratio(one: Case, key: str) -> str:
        return _met(one[key] >= titles[one["case"]][1], f"{one[key]:.2f}")

    def peaks(one: Case) -> str:
        return " / ".join(f"{max(one[side]['peak_bytes'].values()) / 1e6:.0f}" for side in SIDES)

    lines = [
        _row(doing, (titles[one["case"]][0] for one in cases)),
        "|---" * (len(cases) + 1) + "|",
        _row("wall s: Java / Rust / lakecore", (_beside(one, "seconds", 2) for one in cases)),
        _row(f"lakecore : Java ({aim})", (ratio(one, "ratio") for one in cases)),
        _row(f"lakecore : Rust ({aim})", (ratio(one, "ratio_to_rust") for one in cases)),
        _row("CPU s: Java / Rust / lakecore", (_beside(one, "cpu", 2) for one in cases)),
        _row("peak MB: Java / Rust / lakecore", map(peaks, cases)),
    ]
    return "\n".join([*lines, "", _measured(found)])


def commands() -> str:
    """`lakecore compact` from process start, with the engine that it chooses."""
    found = _load("command")
    cases = found["figures"]["cases"]
    lines = [
        _row("`lakecore compact`", (COMPACTIONS[one["case"]][0] for one in cases)),
        "|---" * (len(cases) + 1) + "|",
        _row("from process start, s: Java / lakecore", (_pair(one, "seconds") for one in cases)),
        _row(
            "lakecore : Java (aim 2.5)", (_met(one["ratio"] >= 2.5, f"{one['ratio']:.1f}") for one in cases)
        ),
    ]
    remark = found["figures"].get("remark")
    return "\n".join([*lines, "", *([remark, ""] if remark else []), _measured(found)])


def spark_io() -> str:
    """Reads and writes through Spark, next to Paimon's connector; another kind of pairs than those with Java."""
    found = _load("spark_io")
    cases = found["figures"]["cases"]
    sides = [(one["paimon"], one["lakecore"]) for one in cases]
    lines = [
        _row("5 M rows through Spark", (SPARK_IO[one["case"]][0] for one in cases)),
        "|---" * (len(cases) + 1) + "|",
        *(
            _row(f"{title} s: connector / lakecore", (f"{a[key]:.1f} / {b[key]:.1f}" for a, b in sides))
            for title, key in (("wall", "seconds"), ("CPU", "cpu"))
        ),
        _row(
            "lakecore : connector (aim 1, merging reads and keyed writes 1.5)",
            (_met(one["ratio"] >= SPARK_IO[one["case"]][1], f"{one['ratio']:.2f}") for one in cases),
        ),
    ]
    return "\n".join([*lines, "", _measured(found)])


def others() -> str:
    """File indexes, maintenance, planning and the proof: a line each, with the conditions of each measurement."""
    lines = [_row("other work", ("Java", "lakecore", "measured")), "|---|---|---|---|"]
    index = _load("index")
    both = index["figures"]
    for title, key, unit in (
        ("making file indexes of 400 files", "seconds", "s"),
        ("a point query by them", "indexed_ms", "ms"),
        ("a point query without them", "plain_ms", "ms"),
    ):
        cells = [f"{both[side][key]:.{1 if unit == 's' else 0}f} {unit}" for side in ("java", "lakecore")]
        lines.append(_row(title, (*cells, _when(index))))
    maintain = _load("maintain")
    lines += [
        _row(_chore(one), (*_time_and_peak(one), _when(maintain))) for one in maintain["figures"]["cases"]
    ]
    plan = _load("plan")
    for one in plan["figures"]["cases"]:
        cell = f"{one['seconds']:.1f} s, {one['peak_mb']:.0f} MB"
        title = f"planning a scan of {one['files']:,} files, the scanner alone, manifests of our own"
        lines.append(_row(title, ("", cell, _when(plan))))
    lines += _plans_of_java()
    proof = _load("proof")
    for one in proof["figures"]["cases"]:
        for mode, cost in one["modes"].items():
            title = f"proof `{mode}`, {one['case']}: CPU that it adds to the job"
            lines.append(_row(title, ("", f"+{_percent(cost)} %", _when(proof))))
    return "\n".join(lines)


CATALOGS = {"filesystem": "a directory", "sqlite": "SQLite", "hive": "Hive metastore", "rest": "REST server"}


def catalogs() -> str:
    """Lists of the tables of a large catalog, and tables that are opened."""
    found = _load("catalogs")
    figures = found["figures"]
    kinds = figures["catalogs"]

    def row(title: str, step: str, key: str) -> str:
        def cell(one: Case) -> str:
            return " / ".join(
                f"{one[side][step][key]:,.{2 if step != 'list' else 0}f}" for side in ("java", "lakecore")
            )

        return _row(f"{title}: Java / lakecore", map(cell, kinds.values()))

    peaks = (f"{one['java']['peak_mb']} / {one['lakecore']['peak_mb']}" for one in kinds.values())
    colds = (
        f"{one['java']['cold']['cpu']:.1f} / {one['lakecore']['cold']['cpu']:.1f}" for one in kinds.values()
    )
    lines = [
        _row(f"{figures['tables']:,} tables", (CATALOGS[name] for name in kinds)),
        "|---" * (len(kinds) + 1) + "|",
        _row("from process start to the list, CPU s: Java / lakecore", colds),
        row("the list, ms", "list", "ms"),
        row("the list, CPU ms", "list", "cpu_ms"),
        row("a table and its newest snapshot, ms", "open", "ms"),
        row("… CPU ms", "open", "cpu_ms"),
        row("the same table again, ms", "again", "ms"),
        row("… CPU ms", "again", "cpu_ms"),
        _row("peak MB: Java / lakecore", peaks),
    ]
    return "\n".join([*lines, "", _measured(found)])


TABLES: Mapping[str, Callable[[], str]] = {
    "compact": compactions,
    "command": commands,
    "read": reads,
    "write": writes,
    "spark-io": spark_io,
    "others": others,
    "catalogs": catalogs,
    "scale-files": lambda: _scale(scale_tables.curves_of_files),
    "scale-tables": lambda: _scale(scale_tables.curves_of_tables),
    "scale-schedules": lambda: _scale(scale_tables.schedules),
}


def _scale(rows: Callable[[Mapping[str, Any]], list[Sequence[str]]]) -> str:
    """A table of docs/scale.md, with the circumstances."""
    found = _load("scale")
    head, *lines = (_row(first, rest) for first, *rest in rows(found["figures"]))
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *lines, "", _measured(found)])


def _load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIGURES / f"{name}.json").read_text())
    return found


def _row(title: str, cells: Any) -> str:
    return f"| {' | '.join((title, *cells))} |"


def _met(met: bool, text: str) -> str:
    """Bold when the aim is met."""
    return f"**{text}**" if met else text


def _pair(one: Case, key: str, digits: int = 1) -> str:
    return f"{one['java'][key]:.{digits}f} / {one['lakecore'][key]:.{digits}f}"


def _beside(one: Case, key: str, digits: int) -> str:
    return " / ".join(f"{one[side][key]:.{digits}f}" for side in SIDES)


def _cpu_to_floor(one: Case) -> str:
    text = _met(one["cpu_to_floor"] <= AIMED_CPU, f"{one['cpu_to_floor']:.2f}")
    among = one.get("cpu_to_floor_of_all_series")
    return f"{text} ({among[0]:.2f} to {among[1]:.2f})" if among else text


def _peaks(one: Case) -> str:
    ours = one["lakecore"]["peak_bytes"]
    parts = [f"{ours.get(kind, 0) / 1e6:.0f}" for kind in ("python", "jvm")]
    return f"{one['java']['peak_bytes'].get('jvm', 0) / 1e6:.0f} / {' + '.join(parts)}"


def _plans_of_java() -> list[str]:
    """Plans through the front door, of a table that Java wrote; no lines before they were measured."""
    if not (FIGURES / "plan_java.json").exists():
        return []
    found = _load("plan_java")
    both = found["figures"]
    titles = {"cold": "from process start", "warm": "warm", "partition": "of one partition"}
    lines = []
    for key, how in titles.items():
        java, rust, ours = (f"{both[side][key]['seconds']:.1f} s" for side in ("java", "rust", "lakecore"))
        cells = [f"{java} (Rust {rust})", ours]
        title = f"planning a scan of {both['files']:,} files that Java wrote, {how}"
        lines.append(_row(title, (*cells, _when(found))))
    dry = f"{both['dry_run']['seconds']:.1f} s"
    return [*lines, _row(f"`compact --dry-run` of these {both['files']:,} files", ("", dry, _when(found)))]


def _chore(one: Case) -> str:
    if one["case"] == "expire":
        return f"expiring {one['count']:,} snapshots and {one['files']:,} files"
    return f"searching {one['files']:,} listed files for orphans"


def _time_and_peak(one: Case) -> Sequence[str]:
    sides = (one["java"], one["lakecore"])
    return [f"{side['seconds']:.1f} s, {side['peak_bytes'] / 1e6:,.0f} MB" for side in sides]


def _percent(cost: Case) -> str:
    among = cost.get("percent_of_all_series")
    return f"{among[0]} to {among[1]}" if among else f"{cost['percent']:.0f}"


def _when(found: Mapping[str, Any]) -> str:
    measured = found["measured"]
    if measured["commit"] is None:
        return "earlier"
    return (
        f"{measured['date'][:10]}, `{measured['commit'][:10]}`{' and changes' if measured['dirty'] else ''}"
    )


def _measured(found: Mapping[str, Any]) -> str:
    """A sentence on the circumstances."""
    measured = found["measured"]
    if measured["commit"] is None:
        return f"({measured['note'][0].upper()}{measured['note'][1:]}.)"
    machine, load = measured["machine"], measured["load_before"][0]
    return (
        f"({_when(found)}; {machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GB; "
        f"load {load:.1f} before; `{measured['command']}`.)"
    )


if __name__ == "__main__":
    main()
