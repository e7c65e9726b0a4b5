"""This module stores the schemas of one branch as `schema/schema-<id>`; they are created atomically and never
changed.
"""

from __future__ import annotations

import re
from dataclasses import field

from lakecore.clock import Clock, SystemClock
from lakecore.data_class import dataclass
from lakecore.errors import CommitUncertainError, CorruptDataError, LakeError, NotFoundError
from lakecore.fs.file_io import FileIO
from lakecore.fs.publish import publish_resolved
from lakecore.metadata.schema import TableSchema
from lakecore.store.numbered import numbered
from lakecore.store.paths import TablePaths
from lakecore.store.settle_time import settle_ms

__all__ = ["SchemaStore"]

_SCHEMA = re.compile(r"schema-([0-9]+)")
_IDENTITY = ("fields", "partition_keys", "primary_keys")
"""These attributes tell schemas of different tables apart, and so does the time, which a REST server does not
tell; options do not, because a handle has its own.
"""


@dataclass(frozen=True)
class SchemaStore:
    """This is the directory `schema/` of a branch. Loaded schemas are cached, because they cannot change."""

    file_io: FileIO
    paths: TablePaths
    clock: Clock = field(default_factory=SystemClock)
    _loaded: dict[int, TableSchema] = field(default_factory=dict, repr=False, compare=False)

    def latest(self) -> TableSchema | None:
        """Return the schema with the highest id; None if there is no table here. It costs a listing."""
        ids = self.list_ids()
        return self.load(ids[-1]) if ids else None

    def load(self, schema_id: int) -> TableSchema:
        """Return a schema. Raises NotFoundError that names the existing ids, CorruptDataError,
        UnsupportedError.
        """
        if schema_id not in self._loaded:
            self._loaded[schema_id] = self._read(schema_id)
        return self._loaded[schema_id]

    def keep(self, schema: TableSchema) -> None:
        """Let `load` return a schema that was read from this directory already."""
        self._loaded.setdefault(schema.id, schema)

    def is_same(self, schema: TableSchema) -> bool:
        """Return whether the stored schema with that id is still the one from which `schema` was loaded:
        another table may have been created in the place of a dropped one. It costs a read.
        """
        try:
            stored = self._read(schema.id)
        except NotFoundError:
            return False
        same_time = schema.time_millis in (0, stored.time_millis)
        return same_time and all(getattr(stored, name) == getattr(schema, name) for name in _IDENTITY)

    def is_replaced(self, schema: TableSchema) -> bool:
        """Return whether there is certainly another table in the place of the one from which `schema` was
        loaded: its id has another schema. It costs a listing and a read.
        """
        return schema.id in self.list_ids() and not self.is_same(schema)

    def list_ids(self) -> tuple[int, ...]:
        """Return the ids, ascending."""
        return numbered(_SCHEMA, self.file_io.list(self.paths.schema_dir))

    def publish(self, schema: TableSchema) -> bool:
        """Create `schema-<id>`. It returns False if another change of the schema took the id, or replaced
        the file within the settle time of the schema's options (`lakecore.store.settle_time`).
        """
        path, data = self.paths.schema(schema.id), schema.to_json().encode()
        settle = settle_ms(schema.options, self.paths.root)
        if not publish_resolved(self.file_io, path, data, self.clock):
            return False
        if settle == 0:
            return True
        self.clock.sleep(settle / 1000)
        return self._is_still(path, data)

    def _is_still(self, path: str, data: bytes) -> bool:
        try:
            return self.file_io.read(path) == data
        except NotFoundError:
            return False
        except LakeError as err:
            raise CommitUncertainError(
                f"{path}: it was published, but storage could not tell whether another writer replaced it "
                f"({err}); look at the schema before you change it again"
            ) from err

    def _read(self, schema_id: int) -> TableSchema:
        path = self.paths.schema(schema_id)
        try:
            schema = TableSchema.from_json(self.file_io.read(path), path)
        except NotFoundError as err:
            ids = ", ".join(map(str, self.list_ids())) or "none"
            raise NotFoundError(
                f"schema {schema_id} of {self.paths.root} does not exist; available schemas: {ids}"
            ) from err
        if schema.id != schema_id:
            raise CorruptDataError(path, f"contains the id {schema.id} of another schema")
        return schema
