"""No option without effect: each option of Paimon is obeyed, refused by name, warned of, or not needed here.

The options come from Paimon's jars (`tests/support/option_dump.py`; a test dumps them again). That an option is obeyed
is taken from the code: an `Option` with its key whose value is read, or its key in one of the modules that check raw keys.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakecore import FilesystemCatalog, Table, load_catalog
from lakecore.catalog.catalog_options import ONLY_VALUES, catalog_option_keys, check_catalog_options
from lakecore.errors import InvalidOptionError, LakeError, UnsupportedError
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.option_rules.checks import (
    check_new_option,
    check_run_option,
    option_warnings,
    unused_reason,
)
from lakecore.metadata.option_rules.known_options import is_known_option
from lakecore.metadata.option_rules.refused_options import REFUSED, REFUSED_BY, WARNED
from lakecore.metadata.option_rules.unused_options import UNUSED
from lakecore.metadata.schema_change import SetOption
from lakecore.options import Option
from tests.support.option_dump import dumped, stored
from tools.options_page import CATALOG_CLASSES, RAW_KEYS, options_in_code, page

ROOT = Path(__file__).parents[2]
LISTED = [one for one in stored() if one["key"] is not None]
TABLE_OPTIONS = [one for one in LISTED if one["class"] not in CATALOG_CLASSES]
OF_THE_PAST = {"log.system", "log.consistency", "log.changelog-mode", "streaming-read-mode", "scan.startup.mode",
               "linage-meta"}  # fmt: skip
"""Earlier releases of Paimon, or texts about it, name these."""
OTHER_DEFAULTS = {
    "partition.expiration-batch-size": "Java splits by the number of partitions at once, which is the same limit",
    "snapshot.ignore-empty-commit": "Java decides by whether it commits a batch or a stream; batches always make none here",
    "lookup.refresh.full-load-threshold": "Java has the largest number in its code",
    "partition.mark-done-action.http.url": "the text is empty",
    "record-level.time-field": "the text is empty",
    "commit.user-prefix": "the text is empty",
    "scan.fallback-branch": "the text is empty",
    "scan.primary-branch": "the text is empty",
    "lookup.cache-max-disk-size": "None is no limit",
    "branch": "an option of the data source of Spark",
    "compaction.small-file-ratio": "None is the formula of Paimon 1.4, which differs by bytes",
}  # fmt: skip
"""Defaults that are written differently, with the reason."""


def classes(key: str) -> list[str]:
    named = {"refused": REFUSED, "refused by": REFUSED_BY, "warned": WARNED, "unused": UNUSED}
    found = [name for name, keys in named.items() if key in keys]
    if not found and unused_reason(key):
        found = ["unused"]
    return found or (["obeyed"] if key in options_in_code() or key in RAW_KEYS else [])


def test_the_list_is_that_of_the_jars() -> None:
    assert stored() == dumped(), "run python -m tests.support.option_dump, and class what is new"


def test_every_option_of_a_table_has_one_class() -> None:
    wrong = {one["key"]: found for one in TABLE_OPTIONS if len(found := classes(one["key"])) != 1}
    assert wrong == {}


def test_earlier_keys_have_the_class_of_the_option() -> None:
    wrong = {}
    own = {one["key"] for one in TABLE_OPTIONS}
    for one in TABLE_OPTIONS:
        declared = options_in_code().get(one["key"], [])
        for old in sorted(set(one["old"]) - own):
            known = any(old in option.keys for _, option in declared)
            if not known and classes(old) != classes(one["key"]) and classes(one["key"]) != ["obeyed"]:
                wrong[old] = one["key"]
            if classes(one["key"]) == ["obeyed"] and not known:
                wrong[old] = one["key"]
    assert wrong == {}


def test_classes_name_options_of_paimon_only() -> None:
    known = {key for one in stored() if one["key"] for key in (one["key"], *one["old"])} | OF_THE_PAST
    assert {*REFUSED, *REFUSED_BY, *WARNED, *UNUSED} <= known


def test_defaults_are_those_of_paimon() -> None:
    wrong = {}
    for one in TABLE_OPTIONS:
        for _, option in options_in_code().get(one["key"], []):
            if classes(one["key"]) == ["obeyed"] and not same_default(option, one["default"]):
                wrong[one["key"]] = (one["default"], option.default)
    assert {key: value for key, value in wrong.items() if key not in OTHER_DEFAULTS} == {}


def same_default(option: Option[object], default: str | None) -> bool:
    if default is None or default == "{}":
        return not option.default
    return bool(option.parse(default) == option.default)


@pytest.fixture(scope="module")
def catalog() -> FilesystemCatalog:
    MemoryFileIO("options").clear()
    return load_catalog("memory://options/wh")


@pytest.fixture(scope="module")
def table(catalog: FilesystemCatalog) -> Table:
    return made(catalog, "d.k", bucket="1")


def made(catalog: FilesystemCatalog, name: str, bucket: str) -> Table:
    columns = {"columns": ["k INT", "v STRING"], "primaryKeys": ["k"], "options": {"bucket": bucket}}
    table = catalog.create_table(name, columns)
    table.write(pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}))
    return table


def named(key: str) -> str:
    return f"(option )?{re.escape(key)}"


@pytest.mark.parametrize("key", sorted(REFUSED))
def test_refused_options_are_not_set(
    catalog: FilesystemCatalog, table: Table, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    value = next(value for value in ("true", "other", "17") if value not in REFUSED[key].same)
    columns = {"columns": ["k INT"], "options": {key: value}}
    with pytest.raises(InvalidOptionError, match=named(key)):
        catalog.create_table("d.refused", columns)
    with pytest.raises(InvalidOptionError, match=named(key)):
        catalog.alter_table("d.k", [SetOption(key, value)])
    with pytest.raises(InvalidOptionError, match=named(key)):
        table.with_options({key: value})
    assert key in warned(table, key, value, caplog)
    assert "refused" not in catalog.list_tables("d")
    for same in REFUSED[key].same:
        table.with_options({key: same})


@pytest.mark.parametrize("key", sorted(WARNED))
def test_writers_warn_of_what_they_do_not_do(
    table: Table, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert key in warned(table, key, "1", caplog)


def warned(table: Table, key: str, value: str, caplog: pytest.LogCaptureFixture) -> str:
    """Write a row into the table that another engine has given the option; what is logged."""
    holding(table, key, value).write(pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}))
    return caplog.text


@pytest.mark.parametrize("key", sorted(REFUSED_BY))
def test_operations_refuse_what_would_make_rows_wrong(
    catalog: FilesystemCatalog, table: Table, key: str
) -> None:
    one = REFUSED_BY[key]
    if key.startswith("postpone."):
        table = made(catalog, "d.postponed", bucket="-2")
    if one.operation == "commit":  # it obeys the options as they are stored then
        table = made(catalog, "d.committed", bucket="1")
        catalog.alter_table("d.committed", [SetOption(key, one.example)])
    held = holding(table, key, one.example)
    rows = pa.table({"k": pa.array([2], pa.int32()), "v": ["b"]})
    operations = {
        "create": lambda: catalog.create_table(
            "d.refused", {"columns": ["k INT"], "options": {key: one.example}}
        ),
        "read": lambda: held.scan().to_arrow(),
        "stream": lambda: held.stream().poll(),
        "write": lambda: held.write(rows),
        "commit": lambda: held.write(rows),
    }
    before = table.latest_snapshot()
    with pytest.raises(LakeError, match=named(key)):
        operations[one.operation]()
    assert table.latest_snapshot() == before


def holding(table: Table, key: str, value: str) -> Table:
    """The table as if another engine had stored the option."""
    schema = replace(table.schema, options={**table.schema.options, key: value})
    return replace(table, _stores=replace(table._stores, schema=schema))


@pytest.mark.parametrize("key", sorted(UNUSED))
def test_unused_options_are_stored_but_not_given_for_a_run(key: str) -> None:
    check_new_option(key, "1")
    assert option_warnings({key: "1"}) == ()
    with pytest.raises(InvalidOptionError, match="no effect"):
        check_run_option(key, "1")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num-sorted-run.stop-trigger", "9"),
        ("lookup-wait", "false"),
        ("changelog-producer.lookup-wait", "false"),
    ],
)
def test_when_writers_wait_is_stored_but_not_given_for_a_run(table: Table, key: str, value: str) -> None:
    check_new_option(key, value)
    with pytest.raises(InvalidOptionError, match="ConcurrentServices obey what the table stores"):
        table.with_options({key: value})


def test_a_run_takes_options_of_paimon_and_lakecore_only(table: Table) -> None:
    listed = {key for one in TABLE_OPTIONS for key in (one["key"], *one["old"])}
    assert {key for key in listed if not is_known_option(key)} == set()
    of_catalogs = {one["key"] for one in LISTED if one["class"] in CATALOG_CLASSES} - listed
    assert {key for key in of_catalogs if is_known_option(key)} == set()
    for key in ("fields.v.aggregate-function", "file-index.bloom-filter.columns", "write.watermark"):
        assert is_known_option(key)
    with pytest.raises(
        InvalidOptionError, match=r"option scan\.snapshotid: neither .* mean scan\.snapshot-id"
    ):
        table.with_options({"scan.snapshotid": "1"})
    with pytest.raises(InvalidOptionError, match=r"option s3\.secret-key: neither") as caught:
        table.with_options({"s3.secret-key": "pst"})
    assert "pst" not in str(caught.value)
    held = holding(table, "owner", "me")
    assert held.with_options({"owner": "me"}).schema.options["owner"] == "me", "it is an option of the table"
    with pytest.raises(InvalidOptionError, match="option owner: neither"):
        held.with_options({"owner": "you"})


@pytest.mark.parametrize(
    "key", ["scan.parallelism", "scan.infer-parallelism", "source.checkpoint-align.enabled"]
)
def test_options_of_reads_of_spark_are_refused_elsewhere(table: Table, key: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"option {key}=.*: it is for spark.read"):
        table.with_options({key: "true"})


@pytest.mark.parametrize("key", ["path", "auto-create"])
def test_options_of_a_new_table_are_given_for_no_run(table: Table, key: str) -> None:
    with pytest.raises(LakeError, match=f"option {key}=.* cannot be changed for one run"):
        table.with_options({key: "true"})


@pytest.mark.parametrize(
    "one", [one for one in LISTED if one["class"] in CATALOG_CLASSES], ids=lambda one: one["key"]
)
def test_options_of_catalogs_are_obeyed_or_refused_by_name(one: dict[str, str]) -> None:
    if one["key"] in catalog_option_keys() and one["key"] not in ("user", "password"):
        check_catalog_options({one["key"]: ONLY_VALUES.get(one["key"], ("filesystem", ""))[0]})
        if one["key"] not in ONLY_VALUES:
            return
    with pytest.raises(LakeError, match=one["key"].replace(".", r"\.")):
        check_catalog_options({one["key"]: "x"})


def test_no_option_of_a_catalog_of_paimon_is_unknown(tmp_path: Path) -> None:
    for one in LISTED:
        if one["class"] in CATALOG_CLASSES and one["key"] not in catalog_option_keys():
            with pytest.raises(LakeError, match="it would have no effect") as caught:
                load_catalog(str(tmp_path), **{one["key"]: "true"})
            assert "unknown" not in str(caught.value)


@pytest.mark.parametrize("key", ONLY_VALUES)
def test_an_option_that_has_one_value_here(key: str, tmp_path: Path) -> None:
    only, why = ONLY_VALUES[key]
    assert load_catalog(str(tmp_path), **{key: only}).list_databases() == []
    with pytest.raises(UnsupportedError, match=f"{key}=other: {why}; set it to {only}"):
        load_catalog(str(tmp_path), **{key: "other"})


def test_raw_keys_are_in_the_code_that_is_named() -> None:
    for key, (module, _) in RAW_KEYS.items():
        tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
        assert key in {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}, (key, module)


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "options.md").read_text(encoding="utf-8") == page(), (
        "run python -m tools.options_page"
    )
