"""What a hold does to every chore, read as a table; which record replaces which; what a clean check ends."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import replace

import pytest

import lakecore.jobs
from lakecore.cli.commands import MAINTENANCE, TABLES
from lakecore.errors import BusyError, CorruptDataError, ProofError
from lakecore.jobs.runner import chore
from lakecore.maintain.holds.plan import (
    EFFECTS,
    HoldEffect,
    effect_on,
    ended_by_check,
    ends_with,
    is_damage,
    replaced_by,
)
from lakecore.maintain.holds.record import MAX_RECORD_BYTES, EndsWith, Hold

TABLE_OF_EFFECTS = """
analyze                         allowed          commits statistics
automatic-tags                  creates only     after a commit of lakecore's own
clear-consumers                 refused          their positions protect snapshots
compact                         allowed          proves what it writes; the old files stay
compact-manifest                refused          rewrites the metadata that is in doubt
create-batch-tags               creates only     a tag protects; none is replaced or deleted
create-branch                   allowed          a branch protects
create-tag                      allowed          a tag protects
delete-branch                   refused
delete-tag                      refused
drop-partition                  refused
drop-table                      refused
expire-changelogs               refused
expire-consumers                refused          their positions protect snapshots
expire-partitions               refused
expire-snapshots                refused
expire-tags                     refused
fast-forward                    refused          removes snapshots of main
fsck                            allowed          reads
hold                            allowed
mark-partition-done             allowed          writes a file
merge-branch                    allowed          appends
purge-files                     refused          removes the history, also what is sound of it
purge-quarantine                refused          of its files; those of other tables go
release                         allowed
remove-orphan-files             refused          an orphan may be what a lost manifest named
remove-unexisting-files         allowed          a remedy; commits
remove-unexisting-manifests     allowed          a remedy; commits
rename-branch                   refused          moves the files of a branch
rename-table                    refused          a hold is by name
rename-tag                      allowed          what it protects stays protected
apply-repair-plan               quarantine only  a remedy
repair-earliest-snapshot        allowed          a hint
repair-hints                    allowed          hints
replace-tag                     refused          frees what the tag protected
rescale                         allowed          proves what it writes; the old files stay
reset-consumer                  allowed          after a rollback a reader has to be moved
restore-table                   allowed          takes files back
rewrite-file-index              allowed          proves what it writes; the old files stay
rollback-to                     quarantine only  a remedy
rollback-to-as-latest           allowed          a remedy; commits
trigger-tag-automatic-creation  creates only     a tag protects; none is deleted
undo                            allowed          a remedy; takes files back
why                             allowed          reads
"""

NO_CHORES = {
    "run-job": "runs chores; each asks for itself",
    "what-if": "reads",
    "airflow": "writes to Airflow; touches no table",
    "alter-function": "touches no table",
    "alter-view-dialect": "touches no table",
    "alter": "changes the schema as its user asks",
    "alter-database": "touches no table",
    "attempts": "reads",
    "catalogs": "reads",
    "compact-database": "is compact, on many tables",
    "copy": "reads one table, and makes another one that is checked before it is there",
    "create": "makes a table",
    "create-database": "touches no table",
    "create-function": "touches no table",
    "create-catalog": "stores a definition; touches no table",
    "create-privileged-user": "changes privileges; touches no table",
    "drop-catalog": "removes a definition; touches no table",
    "drop-privileged-user": "changes privileges; touches no table",
    "grant-privilege-to-user": "changes privileges; touches no table",
    "init-file-based-privilege": "changes privileges; touches no table",
    "merge-into": "commits changes of rows as its user asks; files stay",
    "partitions": "reads",
    "privileges": "reads",
    "revoke-privilege-from-user": "changes privileges; touches no table",
    "update": "commits changes of rows as its user asks; files stay",
    "databases": "reads",
    "delete": "commits the deletion of rows as its user asks; files stay",
    "describe": "reads",
    "drop-function": "touches no table",
    "drop-database": "is drop-table, on the tables of a database",
    "dropped-tables": "reads",
    "files": "reads",
    "health": "reads",
    "holds": "reads",
    "lookup": "reads",
    "migrate-database": "makes tables",
    "migrate-table": "makes a table",
    "query-service": "reads",
    "prepare-spark": "touches no table",
    "read": "reads",
    "repair": "enters names; touches no table",
    "runs": "reads",
    "snapshots": "reads",
    "stream": "reads",
    "survey": "reads tables; writes records of its own below `.lakecore`",
    "tables": "reads",
    "update-columns": "commits values as its user asks; files stay",
    "write": "commits rows as its user asks; files stay",
}
"""Commands that a hold does not concern."""


def test_every_chore_has_its_effect_and_every_effect_its_chore() -> None:
    rows = [line.split(maxsplit=1) for line in TABLE_OF_EFFECTS.strip().splitlines()]
    effects = sorted((effect.value for effect in HoldEffect), key=len, reverse=True)
    said = {name: next(one for one in effects if rest.startswith(one)) for name, rest in rows}
    assert said == {name: effect.value for name, effect in EFFECTS.items()}
    assert effect_on("a chore of tomorrow") is HoldEffect.REFUSED


def test_every_command_is_a_chore_or_is_said_to_be_none() -> None:
    commands = {*TABLES, *MAINTENANCE}
    assert commands & set(EFFECTS) | set(NO_CHORES) == commands, "classify it in holds/plan.py or here"
    assert not set(EFFECTS) & set(NO_CHORES)
    assert set(EFFECTS) - commands == {"automatic-tags"}, "not a command"


def test_every_job_begins_under_a_name_that_is_classified() -> None:
    """A job names itself in a table `_NAMES`, or in `NAME`, `_NAME`, `_JOB`, or where it makes its `ChoreKind`."""
    found: set[str] = set()
    for module in (one.name for one in pkgutil.walk_packages(lakecore.jobs.__path__, "lakecore.jobs.")):
        loaded = importlib.import_module(module)
        if getattr(loaded, "run_on_table", None) is not chore.run_on_table or loaded is chore:
            continue
        names = set(getattr(loaded, "_NAMES", {}).values())
        names |= {getattr(loaded, name) for name in ("NAME", "_NAME", "_JOB") if hasattr(loaded, name)}
        source = inspect.getsource(loaded)
        names |= {name for name in EFFECTS if f'ChoreKind("{name}"' in source or f'"{name}",\n' in source}
        assert names, f"{module}: under which name does it begin?"
        found |= names
    assert found <= set(EFFECTS)
    others = {
        "automatic-tags",
        "compact",
        "drop-table",  # of the catalog, no job
        "fsck",
        "hold",
        "purge-quarantine",
        "release",
        "rename-table",  # of the catalog, no job
        "restore-table",  # of the catalog, no job
        "rewrite-file-index",
    }
    assert set(EFFECTS) - found <= others


@pytest.mark.parametrize(
    ("error", "damage", "ends"),
    [
        (CorruptDataError("/w/d.db/k/manifest/manifest-1", "not avro"), True, EndsWith.FSCK),
        (CorruptDataError("/w/d.db/k/branch/branch-x/snapshot/snapshot-1", "not JSON"), True, EndsWith.FSCK),
        (CorruptDataError("/w/d.db/k/bucket-0/data-1.parquet", "page"), True, EndsWith.DEEP_FSCK),
        (CorruptDataError("/w/d.db/k/index/index-1", "no vector"), True, EndsWith.DEEP_FSCK),
        (ProofError("bucket 0", "rows differ"), True, EndsWith.DEEP_FSCK),
        (CorruptDataError("/w/.lakecore/runs/d.k/r/files.jsonl.gz", "not gzip"), False, None),
        (BusyError("somebody"), False, None),
    ],
)
def test_which_error_is_damage_and_which_check_can_see_its_cause(
    error: Exception, damage: bool, ends: EndsWith | None
) -> None:
    assert is_damage(error, "/w/.lakecore/") is damage
    assert ends is None or ends_with(error) is ends


A = Hold(id="1", table="d.k", ends_with=EndsWith.FSCK, reason="r", since_ms=5, error_class="E", path="p")


def test_one_cause_has_one_record_and_the_number_of_causes_is_bounded() -> None:
    same, other = replace(A, id="2", reason="else", since_ms=9), replace(A, id="3", path="q")
    deep, person = (
        replace(A, id="4", ends_with=EndsWith.DEEP_FSCK),
        replace(A, id="5", ends_with=EndsWith.PERSON),
    )
    assert replaced_by(same, [A, other, deep, person]) == (A,), "a deep cause outlives a shallow one"
    assert replaced_by(person, [A, replace(person, id="6")]) == (), "what persons said stays"
    many = [replace(A, id=f"x{n}", path=f"p{n}", since_ms=n) for n in range(30)]
    assert replaced_by(replace(A, id="new", path="new"), [*many, deep]) == tuple(many[:11])


def test_a_clean_check_ends_what_it_can_see() -> None:
    deep, person = replace(A, ends_with=EndsWith.DEEP_FSCK), replace(A, ends_with=EndsWith.PERSON)
    holds = (A, deep, person, Hold.unreadable("x", "d.k", "why"))
    assert ended_by_check(holds, deep=False, read_data=False) == ()
    assert ended_by_check(holds, deep=True, read_data=False) == ()
    assert ended_by_check(holds, deep=False, read_data=True) == (A,)
    assert ended_by_check(holds, deep=True, read_data=True) == (A, deep)


def test_a_record_is_read_as_it_was_written_and_hostile_text_is_escaped() -> None:
    hold = replace(A, reason="line\nbreak \x1b[31m red ‮ " + "x" * 5000, by="dag/task", job="compact")
    back = Hold.decoded(hold.encoded(), hold.id, "d.k")
    assert replace(back, reason="") == replace(hold, reason="")
    assert not set(back.reason) & set("\n\x1b\u202e")
    assert len(hold.encoded()) < MAX_RECORD_BYTES
    assert (
        len(replace(hold, reason="\U000e0001" * 5000, path="\x00" * 5000, by="\x00" * 5000).encoded())
        < MAX_RECORD_BYTES
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        A.encoded().replace(b'"version": 1', b'"version": 2'),
        A.encoded().replace(b"d.k", b"d.other"),
        A.encoded().replace(b'"fsck"', b'"tomorrow"'),
        A.encoded().replace(b": 5", b": true"),
        A.encoded().replace(b": 5", b": 1e999"),
        A.encoded().replace(b": 5", b": " + b"9" * 6000),
        A.encoded().replace(b'"r"', b"7"),
        A.encoded().replace(b'"reason"', b'"raisin"'),
    ],
)
def test_a_damaged_record_is_a_hold_that_only_a_person_ends(data: bytes) -> None:
    found = Hold.decoded(data, "evil\n.json", "d.k")
    assert (found.table, found.ends_with, found.readable) == ("d.k", EndsWith.PERSON, False)
    assert "evil\\x0a.json of a hold cannot be read" in str(found)
