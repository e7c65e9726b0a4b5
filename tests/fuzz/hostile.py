"""The path fuzzer: hostile paths in every field of every record, and every chore on such a table.

`python -m tests.fuzz.hostile [--seed N] [--cases N] [--minutes M] [--figures]` prints what went wrong, and how often what happened. A case
is `chore:field:value:seed`; `--case` runs one. Whatever a chore does or says, a table outside the warehouse, another table
within, and all that links lead to must stay as they are: names, contents and times; nothing of the table outside may turn up
in the warehouse; and what is raised is an error of lakecore, on one line.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakecore.catalog.filesystem import FilesystemCatalog, load_catalog
from lakecore.errors import LakeError, NotFoundError, printable
from lakecore.format.blob.descriptors import encode_reference
from lakecore.jobs import compact, partitions
from lakecore.jobs.versions import branches, consumers, tags
from lakecore.read.columns.blob_values import resolve_references
from lakecore.verify.fsck.check import fsck
from tests.fuzz.hostile_fields import FIELDS, LINKS, MARK, Case, Field, values_for
from tests.support.chores import AT_ONCE, CHORES, Chore, branched, partitioned, run, undoable, with_changelogs
from tests.support.lake import key_table, put, rows_of
from tests.support.maintained import History, history, views

__all__ = ["ALL_CHORES", "ALL_FIELDS", "Lab", "Outcome", "run_case", "run_cases"]

Lake = FilesystemCatalog


def _marked(lake: Lake) -> History:
    """With deletion vectors."""
    table = key_table(lake, deletion_vectors__enabled="true")
    for number in range(4):
        put(table, [{"k": number, "v": f"v{number}"}, {"k": 0, "v": f"new{number}"}])
        job = compact.Job(table="d.k", strategy=compact.Strategy.UNIVERSAL, commit_identifier=number)
        compact.run(job, lake, clock=lake.clock)
    return History.of(lake, table)


def _read(lake: Lake) -> Any:
    for name in ("d.k", "d.a"):
        with suppress(NotFoundError):
            table = lake.load_table(name)
            seen = [views(table), [b.to_pylist() for changes in _first(table) for b in changes.to_batches()]]
            rows_of(table)
            return seen
    return None


def _first(table: Any) -> Any:
    stream = iter(table.stream(snapshot=1, as_written=True))
    for _ in range(3):
        found = next(stream, None)
        if found is None:
            return
        yield found


def _check(lake: Lake) -> None:
    for name in ("d.k", "d.a"):
        with suppress(NotFoundError):
            table = lake.load_table(name)
            report = fsck(table._stores.file_io, table._stores.paths, now_ms=0, deep=True, read_data=True)
            assert all(f.problem == printable(f.problem) for f in report.findings), (
                "a finding that is not printable"
            )


def _write(lake: Lake) -> None:
    put(lake.load_table("d.k"), [{"k": 1, "v": "x"}])


def _requests(value: str) -> dict[str, Callable[[Lake], Any]]:
    """Names as a caller gives them."""
    return {
        "create-tag": run(tags, tags.CreateTag, tag=value),
        "rename-tag": run(tags, tags.RenameTag, tag="a", target_tag=value),
        "delete-tag": run(tags, tags.DeleteTag, tags=(value,)),
        "create-branch": run(branches, branches.CreateBranch, branch=value, tag="a"),
        "delete-branch": run(branches, branches.DeleteBranch, branch=value),
        "rename-branch": run(branches, branches.RenameBranch, branch="x", target_branch=value),
        "reset-consumer": run(consumers, consumers.ResetConsumer, consumer=value, next_snapshot=3),
        "drop-partition": run(partitions, partitions.DropPartition, partitions=f"p={value}"),
        "load": lambda lake: lake.load_table(f"d.{value}"),
        "drop": lambda lake: lake.drop_table(f"d.{value}"),
        "create": lambda lake: lake.create_table(f"{value}.x", {"columns": ["k INT"]}),
        "blob": lambda lake: _blob(lake, value),
    }


def _blob(lake: Lake, value: str) -> None:
    import pyarrow as pa

    table = lake.load_table("d.k")
    found = resolve_references(
        table._stores.file_io, table.path, "b", pa.array([encode_reference(value, 0, -1)], pa.binary())
    )
    # other tables of the warehouse may be referred to
    assert "/outside/" not in value or b"PAR1" not in found[0].as_py(), "a blob from outside was read"


class _Request:
    def __init__(self, name: str) -> None:
        self.name = name
        self.value = ""

    def __call__(self, lake: Lake) -> Any:
        return _requests(self.value)[self.name](lake)


REQUESTS = tuple(_requests(""))
_GENERAL = {
    "read": _read,
    "fsck": _check,
    "write": _write,
    "drop-table": lambda lake: lake.drop_table("d.k"),
    "expire": CHORES["expire"].run,
    "orphans": CHORES["orphans"].run,
    "compact": CHORES["compact"].run,
    "expire at once": run(
        CHORES["expire"].run.module, CHORES["expire"].run.kind, retain_max=1, retain_min=1, safety=AT_ONCE
    ),  # type: ignore[attr-defined]
}
_STATES = {"": history, "marked": _marked, "branched": branched, "partitioned": partitioned, "undoable": undoable,
           "changelogs": with_changelogs}  # fmt: skip
ALL_CHORES: dict[str, Chore] = {
    **CHORES,
    **{
        f"{name} {state}".strip() if name not in CHORES or state else f"{name} again": Chore(
            run=work, make=make
        )  # type: ignore[arg-type]
        for name, work in _GENERAL.items()
        for state, make in _STATES.items()
    },
}
ALL_FIELDS = {
    **{one.name: one for one in (*FIELDS, *LINKS)},
    **{f"request.{name}": Field(f"request.{name}", lambda case, value: True) for name in REQUESTS},
}


_CLOSE = {"repair-plan.": ("repair", "repair-roots"), "run.": ("undo", "purge", "expire-and-keep")}
"""Chores that look at records which most others never read: most cases of these fields are theirs."""


@dataclass
class Outcome:
    """What became of cases. `bad`: case -> what happened; `fields`, `chores`: how often each was run."""

    cases: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    bad: dict[str, str] = field(default_factory=dict)
    fields: Counter[str] = field(default_factory=Counter)
    chores: Counter[str] = field(default_factory=Counter)


class Lab:
    """Warehouses to copy, and the table outside."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._images: dict[Any, tuple[Path, str]] = {}
        outside = load_catalog(str(root / "outside"), create_warehouse=True, **{"local.fsync": "false"})
        made = history(outside)
        put(made.table, *([{"k": n, "v": f"{MARK} {n}"}] for n in range(8)))
        compact.run(compact.Job(table="d.k", strategy=compact.Strategy.FULL), outside, clock=outside.clock)
        self.outside = root / "outside" / "d.db" / "k"

    def image(self, make: Any) -> tuple[Path, str]:
        """A warehouse as `make` makes it, with a table `d.other`; and the name of its table."""
        if make not in self._images:
            place = self.root / "images" / str(len(self._images))
            lake = load_catalog(str(place), create_warehouse=True, **{"local.fsync": "false"})
            made = make(lake)
            shutil.copytree(made.table.path, place / "d.db" / "other")
            self._images[make] = place, made.table.name.removeprefix("d.")
        return self._images[make]


def _fingerprint(*roots: Path) -> dict[str, tuple[Any, ...]]:
    """Everything below directories, and themselves: kind, size, time, number and content."""
    found: dict[str, tuple[Any, ...]] = {}
    for root in roots:
        for folder, folders, files in os.walk(root):
            for name in ["", *folders, *files]:
                path = os.path.join(folder, name)
                about = os.lstat(path)
                content = b""
                if name in files and not os.path.islink(path):
                    with open(path, "rb") as file:
                        content = hashlib.blake2b(file.read(), digest_size=8).digest()
                found[path] = (about.st_mode, about.st_size, about.st_mtime_ns, about.st_ino, content)
    return found


def run_case(
    lab: Lab, chore_name: str, field_name: str, value_name: str, seed: str
) -> tuple[str, str | None]:
    """What became of it, and what is wrong with that. Verdict `none`: the warehouse has no such record."""
    one, asked = ALL_FIELDS[field_name], field_name.startswith("request.")
    chore = (
        Chore(run=_Request(field_name.removeprefix("request.")), make=branched)
        if asked
        else ALL_CHORES[chore_name]
    )
    image, table = lab.image(chore.make)
    root = lab.root / "case"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(image, root / "wh", symlinks=True)
    case = Case(root, lab.outside, table, random.Random(seed))
    value = values_for(case, one)[value_name]
    try:
        if not one.plant(case, value):
            return "none", None
    except (UnicodeEncodeError, ValueError):
        return "none", None
    if asked:
        chore.run.value = value  # type: ignore[attr-defined]
    other = case.warehouse / "d.db" / "other"
    around = [
        lab.root / "outside",
        case.linked,
        *([] if other.is_symlink() or (root / "linked" / "0-d.db").exists() else [other]),
    ]
    before = _fingerprint(*around)
    lake = load_catalog(str(case.warehouse), **{"local.fsync": "false"})
    verdict, problem, seen = _attempt(chore, lake)
    after = _fingerprint(*around)
    if before != after:
        changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        return "outside changed", f"{verdict}: {changed[:3]}"
    if (
        problem is None
        and one.copies
        and (copied := [*_copied(case), *(["rows"] if MARK in repr(seen) else [])])
    ):
        return "copied in", f"{verdict}: {copied}"
    return verdict, problem


def _attempt(chore: Chore, lake: Lake) -> tuple[str, str | None, Any]:
    """Verdict, problem, and what the chore answered."""
    try:
        seen = chore.run(lake)
    except LakeError as err:
        text = str(err)
        return type(err).__name__, None if text == printable(text) else f"not printable: {text!r}", None
    except StopIteration:  # of the chore's own search for a run, where the only one is passed over
        return "no run", None, None
    except Exception as err:  # noqa: BLE001 - this is what is looked for
        return "crash", f"{type(err).__name__}: {err}", None
    return "done", None, seen


def _copied(case: Case) -> list[str]:
    """Files of the warehouse with bytes of the table outside, and whether its rows can be read."""
    found = []
    for folder, _, files in os.walk(case.warehouse):
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink() and MARK.encode() in path.read_bytes():
                found.append(str(path))
    with suppress(LakeError):
        table = load_catalog(str(case.warehouse)).load_table(f"d.{case.table}")
        if MARK in repr(views(table)):
            found.append("rows of the table")
    return found


def run_cases(lab: Lab, seed: int, cases: int, limit: float | None = None) -> Outcome:
    """Cases in an order that the seed gives: each field about equally often, each chore as well."""
    out, rng, started = Outcome(), random.Random(seed), time.monotonic()
    logging.disable(logging.ERROR)
    names, chores = list(ALL_FIELDS), list(ALL_CHORES)
    tried = 0
    while out.cases < cases and (limit is None or time.monotonic() - started < limit):
        if tried % len(names) == 0:
            rng.shuffle(names)
        if tried % len(chores) == 0:
            rng.shuffle(chores)
        field_name, chore = names[tried % len(names)], chores[tried % len(chores)]
        close = next((some for start, some in _CLOSE.items() if field_name.startswith(start)), ())
        if close and rng.random() < 0.8:
            chore = rng.choice(close)
        tried += 1
        image, table = lab.image(ALL_CHORES[chore].make)
        probe = Case(image.parent, lab.outside, table, random.Random(0))
        value = rng.choice(list(values_for(probe, ALL_FIELDS[field_name])))
        key = f"{chore}:{field_name}:{value}:{seed}-{tried}"
        verdict, problem = run_case(lab, chore, field_name, value, f"{seed}-{tried}")
        if verdict == "none":
            continue
        out.cases += 1
        out.verdicts[verdict] += 1
        out.fields[field_name] += 1
        out.chores["request" if field_name.startswith("request.") else chore] += 1
        if problem is not None:
            out.bad[key] = f"{verdict}: {problem}"
            print(f"{key}\n    {out.bad[key][:600]}", flush=True)
    logging.disable(logging.NOTSET)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--minutes", type=float, default=60, help="end earlier")
    parser.add_argument("--case")
    parser.add_argument("--fields", action="store_true", help="print the fields and end")
    parser.add_argument("--figures", action="store_true", help="write docs/figures/paths.json")
    args = parser.parse_args()
    if args.fields:
        print("\n".join(ALL_FIELDS))
        return
    with tempfile.TemporaryDirectory() as root:
        lab = Lab(Path(root))
        if args.case:
            chore, field_name, value, seed = _parts(args.case)
            print(run_case(lab, chore, field_name, value, seed))
            return
        _report(lab, args)


def _parts(case: str) -> list[str]:
    """Values hold colons."""
    head, _, seed = case.rpartition(":")
    chore, field_name, value = head.split(":", 2)
    return [chore, field_name, value, seed]


def _report(lab: Lab, args: argparse.Namespace) -> None:
    from tests.bench.figures import conditions, write_figures

    measured, started = conditions(), time.monotonic()
    out = run_cases(lab, args.seed, args.cases, 60 * args.minutes)
    figures = {
        "seed": args.seed, "cases": out.cases, "seconds": round(time.monotonic() - started), "bad": len(out.bad),
        "fields": len(out.fields), "chores": len(out.chores), "verdicts": dict(out.verdicts.most_common()),
        "cases_of_fields": dict(sorted(out.fields.items())), "cases_of_chores": dict(sorted(out.chores.items())),
    }  # fmt: skip
    print(
        f"{out.cases} cases, {len(out.fields)} fields, {len(out.chores)} chores, {len(out.bad)} bad: {dict(out.verdicts)}"
    )
    if args.figures:
        print(write_figures("paths", measured, figures))
    sys.exit(bool(out.bad))


if __name__ == "__main__":
    main()
