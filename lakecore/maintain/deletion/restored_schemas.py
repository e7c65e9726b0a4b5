"""This module restores the schemas of main that a fast-forward removed or replaced: the snapshots that an
undo restores need them.

The record of the run has both texts of each of these schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakecore.errors import AlreadyExistsError, CorruptDataError
from lakecore.maintain.deletion.runs import RunRecord
from lakecore.maintain.target import Target
from lakecore.metadata.schema import TableSchema
from lakecore.store.paths import MAIN_BRANCH

__all__ = ["SCHEMAS", "check_schemas", "replaced_schemas", "restore_schemas"]

SCHEMAS = "schemas"
"""This entry of the parameters of a run has the texts before and after it, by schema id; None where there is
no such schema.
"""


def replaced_schemas(before: Mapping[int, str], after: Mapping[int, str]) -> dict[str, object]:
    """Return the entry of the ledger's parameters with the schemas that a run removes, replaces or adds."""
    ids = sorted({*before, *after})
    changes = {str(n): [before.get(n), after.get(n)] for n in ids if before.get(n) != after.get(n)}
    return {SCHEMAS: changes} if changes else {}


def check_schemas(target: Target, record: RunRecord) -> None:
    """Raise AlreadyExistsError if main has a schema that the run did not leave, CorruptDataError for a record
    whose schemas are none.
    """
    changes = list(_changes(target, record))
    if not changes:
        return
    main = target.at_branch(MAIN_BRANCH)
    late = [number for number in main.schemas.list_ids() if number > changes[-1][0]]
    late += [number for number, before, after in changes if _text(main, number) not in (before, after)]
    if late:
        raise AlreadyExistsError(
            f"{target.name}: schema {late[0]} is another one than run {record.id} left: the table was "
            "altered since, and the snapshots of the run belong to other schemas. To keep the present rows, "
            "create a tag, and a branch from it; then remove the schemas that came since, and undo again"
        )


def restore_schemas(target: Target, record: RunRecord) -> None:
    """Let main have the schemas that it had before the run. It can be repeated."""
    main = target.at_branch(MAIN_BRANCH)
    changes = list(_changes(target, record))
    for number, before, _ in changes:
        if before is not None and _text(main, number) != before:
            main.file_io.overwrite(main.paths.schema(number), before.encode(errors="surrogateescape"))
    for number, before, _ in reversed(changes):
        if before is None:
            main.file_io.delete(main.paths.schema(number))


def _changes(target: Target, record: RunRecord) -> Iterator[tuple[int, str | None, str | None]]:
    """Yield the schemas of a record from the lowest id, checked: whoever can write into the warehouse can
    write a record.
    """
    raw = record.parameters.get(SCHEMAS, {})
    try:
        changes = sorted((int(name), before, after) for name, (before, after) in raw.items())
        for number, *texts in changes:
            path = target.at_branch(MAIN_BRANCH).paths.schema(number)
            for text in texts:
                if text is not None and TableSchema.from_json(text, path).id != number:
                    raise ValueError(f"a schema is not schema {number}")
    except (AttributeError, TypeError, ValueError) as err:
        raise CorruptDataError(
            f"run {record.id} of {record.table}", f"has schemas that are none: {err}"
        ) from err
    yield from changes


def _text(main: Target, number: int) -> str | None:
    path = main.paths.schema(number)
    return (
        None if main.file_io.stat(path) is None else main.file_io.read(path).decode(errors="surrogateescape")
    )
