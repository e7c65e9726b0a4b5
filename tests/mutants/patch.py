"""A bug in a process that has imported lakecore already: the code of the function changes, in memory alone.

A fork of such a process needs no import: trying a bug costs what the work costs. Where a bug lies outside of every function,
or changes more than code, the caller takes a copy of the tree instead (`sandbox`).
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutants.catalogue import Mutant
from tests.mutants.choice import function_at

__all__ = ["NotPatchableError", "patch"]


class NotPatchableError(Exception):
    """The bug cannot be put into functions that exist."""


def patch(mutant: Mutant, root: Path) -> None:
    """Put the bug into this process. Raises NotPatchableError, and MutantError when it does not apply."""
    text = (root / mutant.file).read_text()
    changed = mutant.applied(text)
    function = function_at(text, mutant.place(text))
    if function is None:
        raise NotPatchableError(f"{mutant.id} is outside of every function")
    importlib.import_module(mutant.file.removesuffix(".py").replace("/", "."))
    path = str(root / mutant.file)
    codes = {code.co_qualname: code for code in _codes(compile(changed, path, "exec"))}
    wanted = {
        name: code
        for name, code in codes.items()
        if name == function or name.startswith(f"{function}.<locals>.")
    }
    places = {code.co_qualname: code for code in _codes(compile(text, path, "exec"))}
    if any(
        len(codes[name].co_freevars) != len(places[name].co_freevars) for name in wanted if name in places
    ):
        raise NotPatchableError(f"{mutant.id} changes what a function takes from around it")
    gc.unfreeze()  # what the parent imported is not listed otherwise
    found = [
        one
        for one in gc.get_objects()
        if type(one) is FunctionType
        and one.__code__.co_filename == path
        and one.__code__.co_qualname in wanted
    ]
    gc.freeze()
    if not any(one.__code__.co_qualname == function for one in found):
        raise NotPatchableError(f"{mutant.id}: nobody made a function {function}")
    for one in found:
        try:
            one.__code__ = wanted[one.__code__.co_qualname]
        except ValueError as err:
            raise NotPatchableError(f"{mutant.id}: {err}") from err


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
