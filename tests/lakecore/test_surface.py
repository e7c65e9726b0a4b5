"""What `import lakecore` offers is written down: names, their public attributes, and a docstring for each."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakecore
from tools.docs_pages import reference_page

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `(\w+)` \| (.*) \| (.*) \|$", re.MULTILINE)


def documented() -> dict[str, set[str]]:
    """Names and their attributes as the table in docs/architecture.md lists them."""
    text = (ROOT / "docs/architecture.md").read_text()
    section = text.partition("## The public surface\n")[2].partition("\n## ")[0]
    return {name: set(re.findall(r"`(\w+)`", attributes)) for name, _, attributes in ROW.findall(section)}


def classes() -> list[str]:
    return [name for name in lakecore.__all__ if inspect.isclass(getattr(lakecore, name))]


def own_classes(kind: type) -> list[type]:
    """The class and those of its bases that are lakecore's."""
    return [one for one in kind.__mro__ if one.__module__.startswith("lakecore")]


def body(kind: type) -> list[ast.stmt]:
    path = inspect.getsourcefile(kind)
    assert path is not None
    for node in ast.parse(Path(path).read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            return node.body
    raise AssertionError(f"{kind} is not in {path}")


def attributes(kind: type) -> Iterator[tuple[str, bool]]:
    """Public attributes that the classes define, and whether each has a docstring."""
    for one in own_classes(kind):
        statements = body(one)
        for statement, following in zip(statements, [*statements[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                has_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name, has_text = statement.name, ast.get_docstring(statement) is not None
            else:
                continue
            if not name.startswith("_"):
                yield name, has_text
        yield from _assigned(statements)


def _assigned(statements: list[ast.stmt]) -> Iterator[tuple[str, bool]]:
    """Public attributes that `__init__` assigns to `self`; the docstring is the string below."""
    for statement in statements:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            for line, following in zip(statement.body, [*statement.body[1:], None], strict=True):
                targets = (
                    line.targets
                    if isinstance(line, ast.Assign)
                    else [line.target]
                    if isinstance(line, ast.AnnAssign)
                    else []
                )
                for target in targets:
                    if isinstance(target, ast.Attribute) and not target.attr.startswith("_"):
                        has_text = isinstance(following, ast.Expr) and isinstance(
                            following.value, ast.Constant
                        )
                        yield target.attr, has_text


def test_every_exported_name_is_in_the_architecture_and_no_other() -> None:
    assert sorted(documented()) == sorted(lakecore.__all__)
    assert sorted(lakecore.__all__) == lakecore.__all__


def test_every_exported_name_is_in_the_reference() -> None:
    pages = reference_page("reference/lakecore.md") + reference_page("reference/errors.md")
    entries = {entry.rpartition(".")[2] for entry in re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE)}
    assert set(lakecore.__all__) <= entries


@pytest.mark.parametrize("name", lakecore.__all__)
def test_an_exported_name_has_a_docstring(name: str) -> None:
    value = getattr(lakecore, name)
    assert value.__doc__
    assert not value.__doc__.startswith(f"{name}("), "the docstring that @dataclass makes"


@pytest.mark.parametrize("name", classes())
def test_public_attributes_are_those_of_the_architecture(name: str) -> None:
    assert {attribute for attribute, _ in attributes(getattr(lakecore, name))} == documented()[name]


@pytest.mark.parametrize("name", classes())
def test_public_attributes_have_docstrings(name: str) -> None:
    assert [attribute for attribute, has_text in attributes(getattr(lakecore, name)) if not has_text] == []


@pytest.mark.parametrize("name", classes())
def test_what_the_source_shows_is_what_a_session_completes(name: str) -> None:
    """No attribute is added where the source does not show it, by a decorator or an assignment."""
    kind = getattr(lakecore, name)
    shown = {one for one in dir(kind) if not one.startswith("_")} - set(dir(BaseException))
    assert shown <= {attribute for attribute, _ in attributes(kind)}


def test_storage_is_no_public_attribute_of_a_table() -> None:
    internal = {"file_io", "paths", "clock", "scanner", "committer", "manifests", "indexes", "schemas"}
    assert internal.isdisjoint(documented()["Table"])
