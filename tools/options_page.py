"""Writes docs/options.md: what lakecore does with each option of Paimon. `python -m tools.options_page` writes it anew.

The options come from tests/lakecore/testdata/paimon_options.jsonl, which the oracle dumps from Paimon's jars; their classes
from `lakecore/metadata/option_rules` (`unused_options`, `refused_options`) and, for those that are obeyed, from the code that reads them.
"""

from __future__ import annotations

import ast
import importlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from lakecore.catalog.catalog_options import ONLY_VALUES, WITHOUT_EFFECT, catalog_option_keys
from lakecore.catalog.registry import kind_option_keys
from lakecore.metadata.option_rules.checks import unused_reason
from lakecore.metadata.option_rules.refused_options import REFUSED, REFUSED_BY, WARNED
from lakecore.metadata.option_rules.unused_options import UNUSED_PREFIXES
from lakecore.options import Option

__all__ = ["CATALOG_CLASSES", "RAW_KEYS", "options_in_code", "page"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "options.md"
LIST = ROOT / "tests" / "lakecore" / "testdata" / "paimon_options.jsonl"
CATALOG_CLASSES = frozenset({
    "CatalogOptions", "FlinkCatalogOptions", "HadoopUtils", "HiveCatalogOptions", "JdbcCatalogOptions", "PrivilegedCatalog",
    "RESTCatalogInternalOptions", "RESTCatalogOptions", "RESTTokenFileIO", "SecurityConfiguration",
})  # fmt: skip
CATALOG_KINDS = ("filesystem", "hive", "jdbc", "rest")
RAW_KEYS = {
    "type": ("lakecore/scan/support.py", "The kind of table; those that the format stores as tables are opened."),
    "bucket-key": ("lakecore/metadata/schema.py", "The columns whose hash is the bucket."),
    "primary-key": ("lakecore/catalog/definition.py", "The primary key of a new table."),
    "partition": ("lakecore/catalog/definition.py", "The partition columns of a new table."),
    "deletion-vectors.modifiable": ("lakecore/catalog/option_change.py", "Whether deletion-vectors.enabled may change."),
    "global-index.external-path": ("lakecore/fs/allowed_paths.py", "Where global indexes are; the catalog must allow the path."),
    "fields.default-aggregate-function": ("lakecore/merge/engines/functions.py", "The function of columns without one."),
    "alter-column-null-to-not-null.disabled": ("lakecore/catalog/alter.py", "Whether a nullable column stays so."),
    "disable-explicit-type-casting": ("lakecore/catalog/alter.py", "Whether types change only without loss."),
    "add-column-before-partition": ("lakecore/catalog/alter.py", "Where a new column goes."),
}  # fmt: skip
"""Options that are obeyed without an `Option`: the module that has the key, and what it says."""
INTRO = """\
# Options of Paimon

What lakecore does with each option that Paimon {releases} declares for tables and catalogs (of connectors: Flink's, from the jar of
2.0.0; Spark's are not listed). This page is made by `python -m tools.options_page`; a test compares it with the code, and the list of
options with Paimon's jars.

An option that is stored in a table speaks to all engines of the table; one that is given for a run (`--option`, `with_options`, options of
a job) speaks to lakecore. So:

1. What lakecore **sets** (create, alter) or is **given for a run** is obeyed, or refused by name. Options that only direct other engines may
   be stored by lakecore, too; given for a run they are refused.
2. An option that **another engine has stored** prevents only the operation whose rows or changes would be wrong without it, or that would
   show rows to people who must not see them.
3. Other options that lakecore does not obey never prevent reads and maintenance. A write warns of them.

Options of a read: a scan, `Table.stream`, a stream of Spark and a lookup obey different ones. An option that is given for a read of another
kind is refused there, with the kind that obeys it; `tests/lakecore/spark/data_source/test_reading_options.py` has the table of both.

The options `fields.<columns>.*`, `file-index.*` and `commit.callback.*` have names of columns or classes in their keys and are not
listed one by one; a key that Paimon does not know is stored, as Paimon stores it, and refused for a run.
"""


@cache
def listed() -> tuple[dict[str, Any], ...]:
    """The options of the list, newest default last."""
    return tuple(
        one for line in LIST.read_text(encoding="utf-8").splitlines() if (one := json.loads(line))["key"]
    )


@cache
def options_in_code() -> dict[str, list[tuple[str, Option[Any]]]]:
    """The options that code of lakecore declares at the top of a module and reads, by key, with that module."""
    declared, read = [], set[tuple[str, str]]()
    for path in sorted((ROOT / "lakecore").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = path.relative_to(ROOT).as_posix()
        declared += [(name, variable) for variable in declarations(tree)]
        read |= names_read(name, tree)
    found: dict[str, list[tuple[str, Option[Any]]]] = defaultdict(list)
    for name, variable in declared:
        if (name, variable) in read:
            option = getattr(importlib.import_module(name.removesuffix(".py").replace("/", ".")), variable)
            found[option.key].append((name, option))
    return dict(found)


def declarations(tree: ast.Module) -> Iterator[str]:
    """Names at the top of a module that are given an `Option(…)`."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if (
                isinstance(node.value.func, ast.Name)
                and node.value.func.id == "Option"
                and isinstance(target, ast.Name)
            ):
                yield target.id


def names_read(module: str, tree: ast.Module) -> set[tuple[str, str]]:
    """Names of which `.read` is taken, each with the module that has it: this one, or the one that it is imported from."""
    homes = {
        alias.asname or alias.name: (f"{node.module.replace('.', '/')}.py", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    return {
        homes.get(node.value.id, (module, node.value.id))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "read" and isinstance(node.value, ast.Name)
    }


def page() -> str:
    """The text of docs/options.md."""
    releases = sorted({release for one in listed() for release in one["releases"]})
    parts = [
        INTRO.format(releases=" and ".join(releases)),
        *obeyed(),
        *refused(),
        *by_operation(),
        *warned(),
        *unused(),
        *catalogs(),
    ]
    return "\n".join(parts) + "\n"


def table_options() -> dict[str, dict[str, Any]]:
    return {one["key"]: one for one in listed() if one["class"] not in CATALOG_CLASSES}


def obeyed() -> Iterator[str]:
    yield from heading(
        "Obeyed",
        "Where the option is read, and its default in Paimon.",
        ("option", "default", "what it says", "read in"),
    )
    for key, one in sorted(table_options().items()):
        if key in REFUSED or key in REFUSED_BY or key in WARNED or unused_reason(key):
            continue
        places = options_in_code().get(key, [])
        where = sorted({name for name, _ in places}) or [RAW_KEYS[key][0]]
        doc = next((option.doc for _, option in places if option.doc), "") or RAW_KEYS.get(key, ("", ""))[1]
        yield row(f"`{key}`", code(one["default"]), doc, ", ".join(short(name) for name in where))


def refused() -> Iterator[str]:
    yield from heading(
        "Refused where lakecore would set them",
        "Also refused for a run. A write into a table that has one warns.",
        ("option", "why", "accepted values"),
    )
    for key, refusal in sorted(REFUSED.items()):
        yield row(f"`{key}`", refusal.why, ", ".join(f"`{value}`" for value in refusal.same if value))


def by_operation() -> Iterator[str]:
    yield from heading("Refused by an operation", "Whoever has set them.", ("option", "refused by", "why"))
    for key, one in sorted(REFUSED_BY.items()):
        yield row(f"`{key}`", one.operation, one.why)


def warned() -> Iterator[str]:
    yield from heading(
        "Warned of", "May be set; a write warns that lakecore does not do it.", ("option", "why")
    )
    yield from (row(f"`{key}`", why) for key, why in sorted(WARNED.items()))


def unused() -> Iterator[str]:
    yield from heading("Not needed here", "Stored without a word; refused for a run.", ("why", "options"))
    groups: dict[str, list[str]] = defaultdict(list)
    for key in table_options():
        if why := unused_reason(key):
            groups[why].append(f"`{key}`")
    for begin, why in UNUSED_PREFIXES.items():
        groups[why].append(f"`{begin}*`")
    yield from (row(why, ", ".join(sorted(keys))) for why, keys in sorted(groups.items()))


def catalogs() -> Iterator[str]:
    keys = sorted({one["key"] for one in listed() if one["class"] in CATALOG_CLASSES})
    known = [key for key in keys if key in catalog_option_keys() and key not in ("user", "password")]
    names = [f"`{key}`" + (f" (only `{ONLY_VALUES[key][0]}`)" if key in ONLY_VALUES else "") for key in known]
    yield f"\n## Options of catalogs\n\nObeyed by `load_catalog`: {', '.join(names)}, `table-default.*`, and those of storage and paths."
    kinds, reasons = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for key in keys:
        if key in known:
            continue
        why = next((why for begin, why in WITHOUT_EFFECT.items() if key.startswith(begin)), None)
        if why is None:
            of = [f"`{kind}`" for kind in CATALOG_KINDS if key in kind_option_keys(kind)]
            kinds[", ".join(of)].append(f"`{key}`")
        else:
            reasons[why].append(f"`{key}`")
    yield from heading(
        "Options of some kinds of catalogs",
        "Catalogs of other kinds refuse them, and name these kinds.",
        ["metastore", "options"],
    )
    yield from (row(of, ", ".join(group)) for of, group in sorted(kinds.items()))
    yield from heading(
        "Options of catalogs that are refused",
        "They are refused by name, with the reason.",
        ["reason", "options"],
    )
    yield from (row(why, ", ".join(group)) for why, group in sorted(reasons.items()))


def heading(title: str, text: str, columns: Iterable[str]) -> Iterator[str]:
    names = tuple(columns)
    yield f"\n## {title}\n\n{text}\n"
    yield row(*names)
    yield "|---" * len(names) + "|"


def row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def code(value: str | None) -> str:
    return "" if value is None else f"`{value}`"


def short(name: str) -> str:
    return f"`{name.removeprefix('lakecore/')}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
