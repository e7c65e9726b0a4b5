"""One-line bugs drawn at random from the source, to find out which tests are missing.

`bugs(files, seed, count)` reads the syntax of the files, lists every place where one token or one statement can be exchanged,
and draws so many of them. The same seed, files and count give the same bugs. The runner runs them like those of the lists:

    make mutants MUTANTS='--random 100 --seed 1 --of lakecore/merge lakecore/lsm --part tests --quick'

One that no test catches changes nothing that anybody can see, or makes something slower alone, or shows a test to be missing.
Who adds that test adds the bug to a list, where it deserves a name.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutants.catalogue import ROOT, Mutant

__all__ = ["bugs", "changes"]

Change = tuple[int, int, str]
"""A change is the begin and the end of a piece of the text, and the text that takes its place."""

_OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "in": "not in", "not in": "in", "is": "is not", "is not": "is", "and": "or", "or": "and",
    "+": "-", "-": "+", "*": "//", "//": "*", "%": "//", "<<": ">>", ">>": "<<", "&": "|", "|": "&",
}  # fmt: skip
_OPERATOR = re.compile(r"not\s+in|is\s+not|\b(?:in|is|and|or)\b|<<|>>|//|[<>=!]=|[<>+\-*%&|]")
_PAIRS = (
    ("min", "max"), ("any", "all"), ("minimum", "maximum"), ("argmin", "argmax"), ("append", "extend"),
    ("startswith", "endswith"), ("union", "intersection"), ("issubset", "issuperset"), ("isdisjoint", "issuperset"),
    ("bisect_left", "bisect_right"), ("partition", "rpartition"), ("first", "last"), ("lower", "upper"), ("keys", "values"),
    ("logical_and", "logical_or"), ("removeprefix", "removesuffix"), ("takewhile", "dropwhile"), ("ceil", "floor"),
)  # fmt: skip
_NAMES = {old: new for one, other in _PAIRS for old, new in ((other, one), (one, other))} | {"sorted": "list"}
_LITERALS = {"left": "right", "right": "left"}


def bugs(files: Sequence[Path], seed: int, count: int, root: Path = ROOT) -> list[Mutant]:
    """So many bugs, or as many as there are, in an order that the seed decides; `files`: files and folders."""
    found = [
        (str(path.relative_to(root)), text, change)
        for path in _sources(files)
        if (text := path.read_text())
        for change in changes(text)
    ]
    random.Random(seed).shuffle(found)
    chosen: list[Mutant] = []
    for file, text, change in found:
        if len(chosen) == count:
            break
        mutant = _mutant(file, text, change)
        if _is_code(mutant.applied(text)):
            chosen.append(mutant)
    return chosen


def changes(text: str) -> list[Change]:
    """Each change of one token or statement that makes a bug, in the order of the text.

    Annotations, default values of parameters, decorators and messages of errors stay as they are.
    """
    lines = _Lines(text)
    return sorted({change for node in _code(ast.parse(text)) for change in _changes_of(node, lines)})


def _sources(files: Sequence[Path]) -> list[Path]:
    return sorted({path for one in files for path in (one.rglob("*.py") if one.is_dir() else [one])})


def _mutant(file: str, text: str, change: Change) -> Mutant:
    start, end, new = change
    line = text.count("\n", 0, start) + 1
    shown = text.splitlines()[line - 1].strip()
    old = text[start:end]
    mutant = Mutant(
        id="", area=file.split("/")[1], file=file, says=f"`{old}` becomes `{new}` in `{shown}`", old=old, new=new,
        after=text[:start],
    )  # fmt: skip
    name = f"random-{Path(file).stem}-{line}-{mutant.digest[:6]}"
    return Mutant(
        id=name, area=mutant.area, file=file, says=mutant.says, old=old, new=new, after=mutant.after
    )


def _is_code(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


class _Lines:
    """Places of nodes in a text: `ast` counts bytes of a line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._place(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self._place(node.end_lineno or 0, node.end_col_offset or 0)

    def replaced(self, node: ast.expr | ast.stmt, new: str) -> Change:
        return self.start(node), self.end(node), new

    def of(self, node: ast.expr) -> str:
        return self.text[self.start(node) : self.end(node)]

    def operator(self, left: ast.expr, right: ast.expr) -> Iterator[Change]:
        """The operator between two operands exchanged."""
        start = self.end(left)
        between = _OPERATOR.search(self.text[start : self.start(right)])
        if between is not None and (new := _OPERATORS.get(" ".join(between[0].split()))):
            yield start + between.start(), start + between.end(), new

    def _place(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that compute: no annotation, no default value or decorator (the runner exchanges bodies), no message, and
    no `strict=True`, which tells of bugs alone."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg == "strict"):
        return
    yield node
    if isinstance(node, ast.Raise):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        inner: Iterator[ast.AST] = iter(node.body)
    elif isinstance(node, ast.AnnAssign):
        inner = iter([node.value] if node.value else [])
    elif isinstance(node, ast.Lambda):
        inner = iter([node.body])
    else:
        inner = ast.iter_child_nodes(node)
    for child in inner:
        yield from _code(child)


def _changes_of(node: ast.AST, lines: _Lines) -> Iterator[Change]:
    if isinstance(node, ast.stmt):
        yield from _of_statement(node, lines)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node, lines)
    elif isinstance(node, ast.Call):
        yield from _of_call(node, lines)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        yield from _of_slice(node.slice, lines)
    elif isinstance(node, ast.expr):
        yield from _of_operator(node, lines)


def _of_statement(node: ast.stmt, lines: _Lines) -> Iterator[Change]:
    """A statement that gives no name a value is gone; a condition is turned round."""
    stored = isinstance(node, ast.Assign) and all(
        isinstance(one, ast.Attribute | ast.Subscript) for one in node.targets
    )
    effect = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    leaves = isinstance(node, ast.Return) and node.value is None
    if (
        stored
        or effect
        or leaves
        or isinstance(node, ast.Continue | ast.Break | ast.Raise | ast.AugAssign | ast.Delete)
    ):
        yield lines.replaced(node, "pass")
    if isinstance(node, ast.AugAssign):
        yield from lines.operator(node.target, node.value)
    if isinstance(node, ast.If | ast.While):
        yield lines.replaced(node.test, f"not ({lines.of(node.test)})")
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Compare | ast.BoolOp):
        yield lines.replaced(node.value, f"not ({lines.of(node.value)})")


def _of_constant(node: ast.Constant, lines: _Lines) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield lines.replaced(node, str(not node.value))
    elif isinstance(node.value, int):
        yield lines.replaced(node, str(node.value + 1))
        yield lines.replaced(node, str(node.value - 1))
    elif isinstance(node.value, str) and node.value in _LITERALS:
        yield lines.replaced(node, f'"{_LITERALS[node.value]}"')


def _of_call(node: ast.Call, lines: _Lines) -> Iterator[Change]:
    """Two arguments exchanged, or the function for its counterpart."""
    for one, other in zip(node.args, node.args[1:], strict=False):
        starred = isinstance(one, ast.Starred) or isinstance(other, ast.Starred)
        if not starred and lines.of(one) != lines.of(other):
            between = lines.text[lines.end(one) : lines.start(other)]
            yield lines.start(one), lines.end(other), lines.of(other) + between + lines.of(one)
    called = node.func
    name = (
        called.attr
        if isinstance(called, ast.Attribute)
        else called.id
        if isinstance(called, ast.Name)
        else ""
    )
    if name in _NAMES:
        yield lines.end(called) - len(name), lines.end(called), _NAMES[name]


def _of_slice(node: ast.Slice, lines: _Lines) -> Iterator[Change]:
    """A bound that is no number is one more, or one less; numbers change as constants do."""
    for bound, step in ((node.lower, "+ 1"), (node.upper, "- 1")):
        if bound is not None and not isinstance(bound, ast.Constant):
            yield lines.replaced(bound, f"({lines.of(bound)}) {step}")


def _of_operator(node: ast.expr, lines: _Lines) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
            yield from lines.operator(left, right)
    elif isinstance(node, ast.BoolOp):
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from lines.operator(left, right)
    elif isinstance(node, ast.BinOp):
        yield from lines.operator(node.left, node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield lines.replaced(node, lines.of(node.operand))
    elif isinstance(node, ast.IfExp):
        yield lines.replaced(node.test, f"not ({lines.of(node.test)})")
    elif isinstance(node, ast.Subscript) and lines.of(node.slice) in ("0", "-1"):
        yield lines.replaced(node.slice, "-1" if lines.of(node.slice) == "0" else "0")
