"""This module decides which partitions are in order: `<warehouse>/.lakecore/sorted/<table>.json`, written
after each sort.

Two sorts that end at once may lose the marks of one of them; then its partitions are sorted once more.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.errors import LakeError, NotFoundError
from lakecore.fs.confined import service_files
from lakecore.fs.file_io import FileIO
from lakecore.maintain.table_key import file_name
from lakecore.metadata.json_record import json_object

__all__ = ["SortMarkStore"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SortMarkStore:
    """A store of the marks of a warehouse, which gives each serialised partition an order and a digest of
    file names, both texts.
    """

    file_io: FileIO
    warehouse: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "file_io", service_files(self.file_io, self.warehouse))

    def load(self, table: str) -> dict[bytes, tuple[str, str]]:
        """Return the marks of a table. What cannot be read is no mark. It costs one read."""
        path = self._path(table)
        try:
            raw = json_object(self.file_io.read(path))
            return {bytes.fromhex(key): (str(order), str(files)) for key, (order, files) in raw.items()}
        except NotFoundError:
            return {}
        except (LakeError, ValueError, TypeError, AttributeError) as err:
            logger.warning("%s is ignored, so its partitions may be sorted again: %s", path, err)
            return {}

    def save(self, table: str, marks: Mapping[bytes, tuple[str, str]]) -> None:
        """Replace the marks of a table. A failure is logged: the sort itself is done."""
        try:
            text = json.dumps({key.hex(): list(mark) for key, mark in marks.items()})
            self.file_io.overwrite(self._path(table), text.encode())
        except LakeError as err:
            logger.warning("%s is sorted, but could not be marked as sorted: %s", table, err)

    def _path(self, table: str) -> str:
        name = file_name(table, is_folder=False)
        return f"{self.warehouse.rstrip('/')}/.lakecore/sorted/{name}.json"
