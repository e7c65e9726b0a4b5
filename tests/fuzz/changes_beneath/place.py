"""The warehouse of the cases: a template of each kind of table is made once and copied for each case."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lakecore
from lakecore.catalog.catalog import Catalog
from lakecore.errors import UnsupportedError
from lakecore.fs.file_io import FileIO
from lakecore.jobs import compact, expire_snapshots
from lakecore.jobs.runner.chore import Safety
from lakecore.jobs.versions import branches, tags
from lakecore.row.json_rows import json_to_batch
from tests.fuzz.changes_beneath.shapes import (
    NEW,
    OLD,
    SHAPES,
    TABLE,
    Moment,
    Row,
    Rows,
    by_key,
    lines,
    schema_of,
)
from tests.support.oracle import Oracle

__all__ = ["KEPT", "REMOVED", "Place"]

KEPT, REMOVED = Safety(owner="t", quarantine=True), Safety(owner="t", quarantine=False)
_HIDES_LEVEL_0 = ("keyed-vectors", "lookup", "postpone")
_BY_JAVA = {1: "old", 4: "new"}


@dataclass
class _Template:
    warehouse: Path
    history: dict[int, Rows]
    settled: list[int]
    tagged: Rows


class Place:
    """A directory with the warehouse `wh` and the templates. `judges`: Java, `old` and `new`."""

    def __init__(self, root: Path, judges: dict[str, Oracle]) -> None:
        self.root, self.judges = root, judges
        self.warehouse = root / "wh"
        self._templates: dict[str, _Template] = {}

    def catalog(self, storage: Callable[[FileIO], FileIO] | None = None) -> Catalog:
        catalog = lakecore.load_catalog(str(self.warehouse), **{"local.fsync": "false"})
        return replace(catalog, file_io=storage(catalog.file_io)) if storage else catalog

    def reset(self, shape: str, java: str = "new") -> Moment:
        """Put a fresh copy of the template in place."""
        template = self._template(shape)
        shutil.rmtree(self.warehouse, ignore_errors=True)
        shutil.copytree(template.warehouse, self.warehouse)
        base = template.history[max(template.history)]
        return Moment(shape, template.history, template.settled, template.tagged, java, base)

    def java(self, which: str, command: str, *args: object) -> Any:
        return self.judges[which].call(command, self.warehouse, TABLE, *args)

    def java_write(self, which: str, rows: Iterable[Row], *flags: object) -> None:
        self.judges[which].write(self.warehouse, TABLE, rows, *flags)

    def java_rows(self, table: str = TABLE) -> list[Row]:
        return [json.loads(text) for text in self.judges["new"].read(self.warehouse, table)]

    def rows(self, table: str = TABLE, **at: Any) -> list[Row]:
        read: list[Row] = self.catalog().load_table(table).scan(**at).to_arrow().to_pylist()
        return read

    def settle(self, shape: str, table: str = TABLE) -> None:
        """Compact where reads leave out level 0, so that they return all rows."""
        if shape in _HIDES_LEVEL_0:
            compact.run(compact.Job(table=table, strategy=compact.Strategy.FULL), self.catalog())

    def _template(self, shape: str) -> _Template:
        if shape not in self._templates:
            shutil.rmtree(self.warehouse, ignore_errors=True)
            self.warehouse.mkdir(parents=True)
            self.judges["new"].create(self.warehouse, TABLE, schema_of(shape))
            settled = self._fill(shape)
            self._templates[shape] = self._taken(shape, settled)
        return self._templates[shape]

    def _fill(self, shape: str) -> list[int]:
        """Write six times, with a tag and a branch after the second; return the settled snapshots."""
        settled: list[int] = []
        for step in range(6):
            rows = [_row(shape, step, number) for number in range(4)]
            if step in _BY_JAVA and not SHAPES[shape].moves:
                self.java_write(_BY_JAVA[step], rows)
            else:
                table = self.catalog().load_table(TABLE)
                texts = [json.dumps({"_kind": "+I"} | row) for row in rows]
                table.write(json_to_batch(texts, table.schema.row_type))
            if shape not in _HIDES_LEVEL_0:
                settled.append(self._latest())
            if shape in _HIDES_LEVEL_0 or step == 2:
                self._compact_if_supported()
                settled.append(self._latest())
            if step == 1:
                tags.run(tags.CreateTag(table=TABLE, tag="t2", snapshot=self._latest()), self.catalog())
        branches.run(branches.CreateBranch(table=TABLE, branch="br", tag="t2"), self.catalog())
        # a first chore makes the directories of lakecore, which are not what cases are about
        first = expire_snapshots.Job(table=TABLE, retain_max=100, retain_min=100, safety=REMOVED)
        expire_snapshots.run(first, self.catalog())
        return sorted(set(settled))

    def _compact_if_supported(self) -> None:
        try:
            compact.run(compact.Job(table=TABLE, strategy=compact.Strategy.FULL), self.catalog())
        except UnsupportedError:
            print("a template is not compacted, because lakecore compacts no such tables")

    def _taken(self, shape: str, settled: list[int]) -> _Template:
        snapshots = self.catalog().load_table(TABLE).snapshots()
        history = {one.id: by_key(shape, self.rows(snapshot=one.id)) for one in snapshots}
        tagged = by_key(shape, self.rows(tag="t2"))
        if lines(self.java_rows()) != lines(history[max(history)].values()):
            raise AssertionError(f"{shape}: Java reads other rows of the template")
        for record in ("ledger", "attempts"):
            shutil.rmtree(self.warehouse / ".lakecore" / record, ignore_errors=True)
        kept = self.root / f"template-{shape}"
        shutil.copytree(self.warehouse, kept)
        return _Template(kept, history, settled, tagged)

    def _latest(self) -> int:
        snapshot = self.catalog().load_table(TABLE).latest_snapshot()
        assert snapshot is not None
        return snapshot.id


def _row(shape: str, step: int, number: int) -> Row:
    key = (number + step) % 6 if SHAPES[shape].keyed else step * 4 + number + 1
    partition = (key if SHAPES[shape].moves else number) % 2
    return {"p": (OLD, NEW)[partition], "k": key, "v": f"s{step}", "n": step}
