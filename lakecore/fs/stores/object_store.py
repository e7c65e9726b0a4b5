"""This module is a `FileIO` over obstore, for S3, Azure, Google Cloud, OSS, COS and OBS.

The library obstore repeats a request after 408, 429, 5xx and lost connections, each time after a longer wait.
A PUT that was repeated may find its own object, so it is read back.

obstore cannot name `<path>/`, the usual object of an empty directory. So outside of S3, for which `s3.py`
does more, an empty directory is the empty object `<path>/.lakecore-directory`, which a listing does not
show. Others see a directory with that file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import pyarrow as pa

from lakecore.clock import SystemClock
from lakecore.errors import (
    AlreadyExistsError,
    CommitUncertainError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakecore.fs.failures import check_whole
from lakecore.fs.file_io import FileStatus
from lakecore.fs.object_output import ObjectOutput
from lakecore.fs.publish import create_by_publication
from lakecore.fs.stores.object_errors import object_errors, refused
from lakecore.fs.stores.object_files import ObjectRanges, RangeReader

__all__ = ["Connection", "ObjectStoreFileIO"]

_COPY_WAITS = (0.2, 1, 5, 25, 0)
"""These are the seconds between looks at a copy."""

_PAGE = 1000
"""A service lists at most so many objects at once."""

_PARTS = 4
"""An upload sends at most so many parts of 10 MB at once."""

_MARKER = ".lakecore-directory"
_FOLDER = "hdi_isfolder"
"""Azure's own directories, and those of Hadoop's drivers, are empty blobs with this property."""


class Connection(Protocol):
    """It connects to a service. It can be pickled, and its `repr` shows no secret."""

    @property
    def scheme(self) -> str:
        """Return the scheme of its plain paths."""

    @property
    def has_folders(self) -> bool:
        """Return whether empty objects may be directories, told by their properties."""

    @property
    def can_create(self) -> bool:
        """Return whether the service creates an object only if there is none. Otherwise one writer at a time
        must be certain, because it looks for the object first.
        """

    def connect(self, root: str) -> Any:
        """Return the client of obstore for the container or bucket that a path names. Raises
        UnavailableError when obstore is not installed.
        """


class ObjectStoreFileIO:
    """It implements `FileIO` over one service. It connects on first use and is pickled as its connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._clients: dict[str, Any] = {}

    def __reduce__(self) -> tuple[type[ObjectStoreFileIO], tuple[Connection]]:
        return type(self), (self.connection,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStoreFileIO) and self.connection == other.connection

    def __hash__(self) -> int:
        return hash(self.connection)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.connection!r})"

    def open_input(self, path: str) -> Any:
        return pa.PythonFile(RangeReader(self.open_ranges(path)), mode="r")

    def open_ranges(self, path: str) -> ObjectRanges:
        client, key = self._client(path)
        return ObjectRanges(path, client, key, self._head("read", path)["size"])

    def read(self, path: str) -> bytes:
        client, key = self._client(path)
        import obstore

        with object_errors("read", path):
            answer = obstore.get(client, key)
            check_whole(path, answer.meta["size"])
            return bytes(answer.bytes())

    def open_output(self, path: str) -> ObjectOutput:
        """Upload in parts; the object appears on `close`. An existing object is not noticed."""
        client, key = self._client(path)
        import obstore

        with object_errors("create", path):
            writer = obstore.open_writer(client, key, max_concurrency=_PARTS)
        return ObjectOutput(path, writer, self, errors=object_errors, cancel=_cancel)

    def write_new(self, path: str, data: bytes) -> None:
        create_by_publication(self, path, data)

    def publish(self, path: str, data: bytes) -> bool:
        client, key = self._client(path)
        import obstore
        from obstore.exceptions import BaseError

        if not self.connection.can_create and self._exists(path):
            return False
        mode: Any = "create" if self.connection.can_create else "overwrite"
        try:
            obstore.put(client, key, data, mode=mode, use_multipart=False)
        except (BaseError, OSError, ValueError) as err:
            failure: Exception = err
        else:
            return True
        return refused(failure, path)

    def overwrite(self, path: str, data: bytes) -> None:
        client, key = self._client(path)
        import obstore

        with object_errors("overwrite", path):
            obstore.put(client, key, data, use_multipart=False)

    def list(self, path: str) -> list[FileStatus]:
        """Return the children. An empty object beside a directory of its name stands for that directory."""
        root = self._root(path)
        client, key = self._client(path)
        import obstore

        with object_errors("list", path):
            page = obstore.list_with_delimiter(client, key or None)
        folders = set(page["common_prefixes"]) - {""}  # of names that begin with a slash
        self._check_pages(path, [*folders, *(item["path"] for item in page["objects"])])
        statuses = [FileStatus(f"{root}/{folder}", 0, True, 0) for folder in folders]
        for item in page["objects"]:
            name = item["path"]
            is_empty = item["size"] == 0
            if name == key or name.endswith(f"/{_MARKER}") or (is_empty and name in folders):
                continue
            is_folder = is_empty and self._is_folder(client, name)
            statuses.append(_status(f"{root}/{name}", item, is_folder))
        return sorted(statuses, key=lambda status: status.path)

    def _check_pages(self, path: str, names: Sequence[str]) -> None:
        """Raise UnsupportedError for a listing that may have ended after one page because the service does
        not know the paging of the requests: then it does not know where to start, either. It costs a request
        for a directory that fills a page.
        """
        if self.connection.can_create or len(names) < _PAGE:
            return
        client, key = self._client(path)
        import obstore

        last: str = max(names)
        with object_errors("list", path):
            later = next(iter(obstore.list(client, key or None, offset=last, chunk_size=1)), ())
        if any(one["path"] <= last for one in later):
            raise UnsupportedError(
                f"{path} has {len(names)} or more files, and the service lists no more than the first page "
                "of them (it lacks ListObjectsV2); keep the warehouse in another store"
            )

    def stat(self, path: str) -> FileStatus | None:
        client, key = self._client(path)
        import obstore
        from obstore.exceptions import InvalidPathError

        if key:
            with suppress(NotFoundError):
                head = self._head("look at", path)
                return _status(path, head, head["size"] == 0 and self._is_folder(client, key))
        with object_errors("look at", path):
            try:
                below = bool(next(iter(obstore.list(client, key or None, chunk_size=1)), ()))
            except InvalidPathError:  # obstore refuses the name of an object, which is below the directory
                below = True
        return FileStatus(path, 0, True, 0) if below else None

    def delete(self, path: str) -> None:
        client, key = self._client(path)
        import obstore

        with suppress(NotFoundError), object_errors("delete", path):
            obstore.delete(client, key)

    def move(self, path: str, target: str) -> None:
        """Copy the object within the service, then delete the original."""
        size = self._copy_new(path, target)
        self._await_copy(path, target, size)
        self.delete(path)

    def make_directory(self, path: str) -> bool:
        """Create the empty object that stands for a directory; two that make it at once both get True."""
        if self.stat(path) is not None:
            return False
        self.overwrite(f"{path.rstrip('/')}/{_MARKER}", b"")
        return True

    def move_directory(self, path: str, target: str) -> bool:
        """Return False: each object would be copied."""
        return False

    def remove_directory(self, path: str) -> None:
        """Remove what stands for an empty directory."""
        self.delete(f"{path.rstrip('/')}/{_MARKER}")
        client, key = self._client(path)
        if self.connection.has_folders and self._is_folder(client, key):
            self.delete(path)

    def _copy_new(self, path: str, target: str) -> int:
        """Copy an object to a name that no object has, and return its size. Raises AlreadyExistsError."""
        client, key = self._client(path)
        other, other_key = self._client(target)
        import obstore
        from obstore.exceptions import AlreadyExistsError as Taken

        if other is not client:
            raise UnavailableError(f"cannot move {path}: {target} is in another container or bucket")
        size: int = self._head("move", path)["size"]
        creates = self.connection.can_create
        exists = not creates and self._exists(target)
        if not exists:
            with object_errors("move", path):
                try:
                    obstore.copy(client, key, other_key, overwrite=not creates)
                except Taken:
                    exists = True
        if exists:
            raise AlreadyExistsError(f"cannot move {path}: {target} exists already")
        return size

    def _await_copy(self, path: str, target: str, size: int) -> None:
        """Wait until a copy is complete: Azure may answer before, and the object is empty until then."""
        for wait in _COPY_WAITS:
            if self._head("move", target)["size"] == size:
                return
            SystemClock().sleep(wait)
        raise CommitUncertainError(
            f"cannot move {path}: the service has not yet copied it to {target}, and the original was kept; "
            "look whether the copy is complete, and delete one of the two"
        )

    def _exists(self, path: str) -> bool:
        with suppress(NotFoundError):
            self._head("look at", path)
            return True
        return False

    def _head(self, action: str, path: str) -> Any:
        client, key = self._client(path)
        import obstore

        with object_errors(action, path):
            return obstore.head(client, key)

    def _is_folder(self, client: Any, key: str) -> bool:
        """Return whether an object is the empty one of a directory that another program made."""
        if not self.connection.has_folders:
            return False
        import obstore

        with suppress(NotFoundError), object_errors("look at", key):
            attributes = obstore.get(client, key, options={"head": True}).attributes
            return str(attributes.get(_FOLDER, "")).lower() == "true"
        return False

    def _client(self, path: str) -> tuple[Any, str]:
        """Return the client of a path, and the key in its container or bucket."""
        root = self._root(path)
        if root not in self._clients:
            name = root.partition("://")[2]
            self._clients.setdefault(root, self.connection.connect(name))  # threads share the first
        return self._clients[root], path[len(root) :].strip("/")

    def _root(self, path: str) -> str:
        """Return `scheme://container` of a path. Raises InvalidInputError for a path of another store."""
        scheme, _, rest = path.partition("://")
        name = rest.partition("/")[0]
        if scheme != self.connection.scheme or not name:
            raise InvalidInputError(f"{path!r} is not a path of the store {self.connection.scheme}://")
        return f"{scheme}://{name}"


def _cancel(writer: Any) -> None:
    """Cancel an upload: the service drops its parts. What the service answers is no longer of interest."""
    from obstore.exceptions import BaseError

    with suppress(BaseError, OSError):
        writer.__exit__(InterruptedError, None, None)


def _status(path: str, item: Mapping[str, Any], is_folder: bool) -> FileStatus:
    if is_folder:
        return FileStatus(path, 0, True, 0)
    return FileStatus(path, item["size"], False, int(item["last_modified"].timestamp() * 1000))
