"""This module turns errors of hdfs-native into lakecore's, with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lakecore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)

__all__ = ["FAILURES", "hdfs_errors", "is_certain", "translate_hdfs"]

FAILURES = (OSError, RuntimeError, NotImplementedError, ValueError)
"""These are the errors that the library raises."""

_ANSWER = re.compile(r'RPCError\("([\w.$]+)", "((?:[^"\\]|\\.)*)"\)', re.DOTALL)
_LENGTH = 300
_REMEDIES = {
    "SafeModeException": "the name node is in safe mode and refuses changes; wait until it has left the safe "
    "mode, or ask an administrator to run: hdfs dfsadmin -safemode leave",
    "AccessControlException": "give this user access to the path, or run as another user (HADOOP_USER_NAME)",
    "NSQuotaExceededException": "expire snapshots, delete files, or raise the quota: hdfs dfsadmin -setQuota",
    "DSQuotaExceededException": "expire snapshots, delete files, or raise the quota: hdfs dfsadmin "
    "-setSpaceQuota",
    "StandbyException": "this name node is on standby; use the name of the nameservice in the location",
    "ParentNotDirectoryException": "a part of the path is a file, not a directory; check the path",
    "PathIsNotEmptyDirectoryException": "the directory is not empty; remove the files in it first",
    "PathComponentTooLongException": "the name is too long for this file system; choose a shorter one",
}
_KERBEROS = ("SASLError", "GSSAPIError", "NoSASLMechanism")
_DATA_NODES = ("DataTransferError", "ChecksumError", "BlocksNotFound", "OperationFailed")


@contextmanager
def hdfs_errors(action: str, path: str) -> Iterator[None]:
    """Raise an error of the library in the block as the lakecore error that names `action` and `path`."""
    try:
        yield
    except FAILURES as err:
        raise translate_hdfs(err, action, path) from err


def is_certain(err: Exception) -> bool:
    """Return whether the name node answered, so that the change that failed did not happen."""
    return isinstance(err, FileExistsError | FileNotFoundError) or _ANSWER.match(str(err)) is not None


def translate_hdfs(err: Exception, action: str, path: str) -> LakeError:
    """Return the error to raise for `err`, which occurred during `action` ("read", "write", …) on `path`."""
    if isinstance(err, FileNotFoundError):
        return NotFoundError(f"cannot {action} {path}: it does not exist, or is a directory")
    if isinstance(err, FileExistsError):
        return AlreadyExistsError(f"cannot {action} {path}: it exists already")
    if isinstance(err, NotImplementedError):
        return UnsupportedError(
            f"cannot {action} {path}: hdfs-native does not support this: {_first_line(str(err))}; keep the "
            "warehouse in a directory without it"
        )
    return _translate_text(str(err), f"cannot {action} {path}")


def _translate_text(text: str, failure: str) -> LakeError:
    match = _ANSWER.match(text)
    if match:
        name = match[1].replace("$", ".").rpartition(".")[2]
        detail = _first_line(match[2])
        if name == "InvalidPathException":
            return InvalidInputError(f"{failure}: the path has an empty part, '.', '..' or a colon")
        if "both be directories" in detail:
            return AlreadyExistsError(f"{failure}: the target exists already")
        if name in _REMEDIES:
            own = name != "SafeModeException"
            return UnavailableError(f"{failure}: {f'{detail}; ' if own else ''}{_REMEDIES[name]}")
        return UnavailableError(f"{failure}: the name node answered {name}: {detail}")
    if text.startswith(_KERBEROS):
        return UnavailableError(
            f"{failure}: Kerberos refused this user: {_first_line(text)}; run kinit, or set "
            "security.kerberos.login.principal and security.kerberos.login.keytab"
        )
    if text.startswith(_DATA_NODES):
        return UnavailableError(
            f"{failure}: the data nodes did not serve it: {_first_line(text)}; check them with: hdfs "
            "dfsadmin -report"
        )
    return UnavailableError(
        f"{failure}: the name node or a data node did not answer: {_first_line(text)}; check the address, "
        "and that the service runs"
    )


def _first_line(text: str) -> str:
    """Return the message of a Java exception without its stack trace and without escapes."""
    line = re.split(r"\\n|\n", text, maxsplit=1)[0]
    return line.replace('\\"', '"')[:_LENGTH]
