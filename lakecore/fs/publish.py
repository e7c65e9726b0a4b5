"""This module creates a file atomically; the outcome is always known, or reported as unknown."""

from __future__ import annotations

import logging

from lakecore.clock import Clock
from lakecore.errors import (
    AlreadyExistsError,
    CommitUncertainError,
    LakeError,
    NotFoundError,
    UnavailableError,
)
from lakecore.fs.file_io import FileIO

__all__ = ["create_by_publication", "publish_resolved"]

logger = logging.getLogger(__name__)

_TRIES = 4
_FIRST_WAIT = 0.05


def publish_resolved(file_io: FileIO, path: str, data: bytes, clock: Clock) -> bool:
    """Create `path` atomically; return True if it now holds exactly `data`, False if it holds something
    else.

    `data` must be unique to this caller (a snapshot names manifests with fresh ids), so that equal bytes
    mean "ours". After an uncertain answer the file is read back; if it is missing, the same bytes are
    published again, which is safe: a first request that arrives late can only write the same bytes, or
    find the name taken. Raises UnavailableError when nothing was created, CommitUncertainError when the
    outcome is still unknown after all tries.
    """
    for attempt in range(_TRIES):
        try:
            created = file_io.publish(path, data)
        except CommitUncertainError as err:
            logger.warning("it is not certain that %s was published: %s", path, err)
            content = _read_back(file_io, path, str(err))
            if content is not None:
                return content == data
        except UnavailableError:
            if attempt == 0:
                raise  # certain: no request was left behind
        else:
            # a client library that repeats a request can find its own file in the way
            return created or _read_back(file_io, path, "the name is taken") == data
        clock.sleep(_FIRST_WAIT * 4**attempt)
    raise CommitUncertainError(
        f"{path}: storage gave no certain answer in {_TRIES} tries; look whether the file is there "
        "before you retry, and delete nothing"
    )


def create_by_publication(file_io: FileIO, path: str, data: bytes) -> None:
    """Create `path` as `FileIO.write_new` promises, on storage that publishes as cheaply as it writes."""
    try:
        created = file_io.publish(path, data)
    except CommitUncertainError:
        if file_io.stat(path) is None:
            raise
        created = file_io.read(path) == data
    if not created:
        raise AlreadyExistsError(f"cannot create {path}: it exists already")


def _read_back(file_io: FileIO, path: str, cause: str) -> bytes | None:
    """Return the content of `path`, or None if it does not exist."""
    try:
        return file_io.read(path)
    except NotFoundError:
        return None
    except LakeError as err:
        raise CommitUncertainError(
            f"{path}: it may have been published ({cause}) and cannot be read back ({err}); look whether "
            "the file is there before you retry, and delete nothing"
        ) from err
