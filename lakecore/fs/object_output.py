"""This module has the output file of object stores: an upload in parts, whose object appears on `close`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from lakecore.fs.base_output import BaseOutput

__all__ = ["ObjectOutput"]


class Deletes(Protocol):
    """It deletes the object of an upload that was aborted after it was closed."""

    def delete(self, path: str) -> None:
        """Delete a file; it may be missing."""


class ObjectOutput(BaseOutput):
    """This is an upload in parts to `stream`. `abort` cancels it, and deletes the object if it was finished.

    `errors` translates what the stream raises, for an action and a path. `cancel` ends a stream that must not
    be finished by its last reference; the stream is dropped afterwards.
    """

    def __init__(
        self,
        path: str,
        stream: Any,
        owner: Deletes,
        *,
        errors: Callable[[str, str], AbstractContextManager[None]],
        cancel: Callable[[Any], None] = lambda stream: None,
    ) -> None:
        self.path = path
        self._stream = stream
        self._owner = owner
        self._errors = errors
        self._cancel = cancel
        self._size = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def write(self, data: Any) -> int:
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        view = memoryview(data).cast("B")
        with self._errors("write", self.path):
            self._stream.write(view)
        self._size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Do nothing: parts are sent when they are full."""

    def close(self) -> None:
        if self._closed:
            return
        try:
            with self._errors("write", self.path):
                self._stream.close()
        except BaseException:
            self.abort()
            raise
        self._closed = True

    def abort(self) -> None:
        """Cancel the upload, and delete the object if it has appeared. Nobody refers to it."""
        self._closed = True
        if self._stream is not None:
            stream, self._stream = self._stream, None
            self._cancel(stream)
            del stream
            self._owner.delete(self.path)
