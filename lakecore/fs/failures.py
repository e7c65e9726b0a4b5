"""This module turns errors of the operating system into lakecore's, with a remedy that a user can act on."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from lakecore.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    UnavailableError,
)

__all__ = ["check_whole", "storage_errors", "translate"]

MOST_BYTES = 2 << 30
"""The largest file, in bytes, that is read whole: metadata and index files have some megabytes."""

_REMEDIES = {
    errno.ENOSPC: "the disk is full; free space or choose another warehouse",
    errno.EFBIG: "the file exceeds the limit of this process; raise `ulimit -f` or lower target-file-size",
    errno.EDQUOT: "the disk quota is used up; free space or raise the quota",
    errno.EACCES: "permission is denied; give this user access to the path",
    errno.EPERM: "the operation is not permitted; give this user access to the path",
    errno.EROFS: "the file system is mounted read-only; remount it writable or choose another warehouse",
    errno.EMFILE: "too many files are open in this process; raise `ulimit -n`",
    errno.ENFILE: "too many files are open on this machine; raise its limit, or stop other processes",
    errno.ENAMETOOLONG: "the name is too long for this file system; choose a shorter one",
    errno.ENOTDIR: "a part of the path is a file, not a directory; check the path",
    errno.EISDIR: "this is a directory, not a file; check the path",
    errno.ENOTEMPTY: "the directory is not empty; remove the files in it first",
    errno.EIO: "the disk reported an input/output error; check it",
}


def translate(err: OSError, action: str, path: str) -> LakeError:
    """Return the error to raise for `err`, which occurred during `action` ("read", "write", …) on `path`."""
    if isinstance(err, FileNotFoundError):
        return NotFoundError(f"cannot {action} {path}: the file does not exist")
    if isinstance(err, FileExistsError):
        return AlreadyExistsError(f"cannot {action} {path}: it exists already")
    remedy = _REMEDIES.get(err.errno or 0, err.strerror or str(err))
    return UnavailableError(f"cannot {action} {path}: {remedy}")


def check_whole(path: str, size: int) -> None:
    """Raise CorruptDataError for a file that is too large to be read whole."""
    if size > MOST_BYTES:
        raise CorruptDataError(path, f"has {size} bytes, but a file of its kind has {MOST_BYTES} at most")


@contextmanager
def storage_errors(action: str, path: str) -> Iterator[None]:
    """Raise an OSError of the block as the lakecore error that names `action` and `path`."""
    try:
        yield
    except OSError as err:
        raise translate(err, action, path) from err
    except ValueError as err:
        if "\0" in path:
            raise InvalidInputError(f"cannot {action} {path!r}: a path cannot hold a NUL character") from err
        raise
