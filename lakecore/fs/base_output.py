"""This module has what the new files of all stores have in common: they are written from their beginning
to their end, and a context manager finishes or aborts them.
"""

from __future__ import annotations

from typing import Self

__all__ = ["BaseOutput"]


class BaseOutput:
    """This is the base of `OutputFile`s. Writers of pyarrow ask what such a file can do."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Make the file complete."""
        raise NotImplementedError

    def abort(self) -> None:
        """Remove whatever was written."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, err: object, trace: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()
