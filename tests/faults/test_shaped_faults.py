"""Files whose columns are stored in another shape, with storage failing at each operation of a writer."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from lakecore.errors import LakeError
from lakecore.format.data_reader import open_reader
from lakecore.fs.memory import MemoryFileIO
from lakecore.metadata.manifest.data_file import FileSource
from lakecore.row.json_rows import json_to_batch
from lakecore.write.files.rolling import FileSpec, RollingWriter
from tests.support.fault_fs import FaultMode, FaultyFileIO
from tests.support.lake import append_table, memory_catalog

LAYOUT = {"fields.c.map.storage-layout": "shared-shredding", "fields.c.map.shared-shredding.max-columns": "2"}
CASES: dict[str, tuple[str, dict[str, str], list[Any]]] = {
    "variant": ("c VARIANT", {"variant.inferShreddingSchema": "true"}, ['{"a":1}', '{"b":[2]}', None]),
    "maps": ("c MAP<STRING NOT NULL, INT>", LAYOUT, [[["a", 1]], None]),
    "maps in orc": ("c MAP<STRING NOT NULL, INT>", LAYOUT | {"file.format": "orc"},
        [[["a", 1], ["b", None]], []]),
}  # fmt: skip


@pytest.mark.parametrize("mode", [FaultMode.ERROR, FaultMode.ERROR_AFTER_EFFECT])
@pytest.mark.parametrize("case", CASES)
def test_a_failed_writer_leaves_nothing(case: str, mode: FaultMode) -> None:
    column, options, values = CASES[case]
    schema = append_table(memory_catalog(), columns=[column], **options).schema
    batch = json_to_batch([json.dumps({"c": value}) for value in values], schema.row_type)
    for number in itertools.count(1):
        storage = MemoryFileIO("shaped")
        storage.clear()
        faulty = FaultyFileIO(storage, number, mode)
        spec = FileSpec(directory="memory://shaped/b", name_prefix="data", schema=schema, keyed=False,
            source=FileSource.APPEND, target_size=1, options=schema.options)  # fmt: skip
        writer = RollingWriter(faulty, spec, lambda: 0)
        try:
            for _ in range(2):
                writer.write(batch)
            (*_, last) = writer.close()
        except LakeError:
            writer.abort()
            assert [status.path for status in storage.list("memory://shaped/b")] == []
            continue
        reader = open_reader(storage, f"memory://shaped/b/{last.file_name}")
        assert reader.num_rows in (len(values), 2 * len(values))
        reader.close()
        if not faulty.fired:
            assert number > 3
            break
