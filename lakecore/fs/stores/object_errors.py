"""This module turns errors of obstore into lakecore's, without addresses, which may hold signatures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lakecore.errors import (
    MASK,
    CommitUncertainError,
    InvalidInputError,
    InvalidOptionError,
    LakeError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
    printable,
)

__all__ = ["object_errors", "refused", "settings_error"]

_STATUS = re.compile(r"status code: (\d{3}[^:<\n]*)")
_CODE = re.compile(r"<Code>([\w.-]+)</Code>")
_GENERIC = re.compile(r"^Generic \w+ error: ")
_ADDRESS = re.compile(r"\w+://\S+")
_QUOTED = re.compile(r'".*', re.DOTALL)
_REPEATED = re.compile(r"after \d+ retries")
_MISSING_ROOTS = frozenset({"ContainerNotFound", "NoSuchBucket"})
_TAKEN = frozenset({"", "BlobAlreadyExists", "PreconditionFailed", "ConditionNotMet"})
_UNCERTAIN = frozenset({"408", "409", "412", "429"})
_OBJECT = re.compile(r"object with invalid path: .*?\bPath \"(.*?)\"(?: contained|: Encountered)", re.DOTALL)
_REGIONS = {
    "s3": "s3.region",
    "oss": "fs.oss.endpoint",
    "cosn": "fs.cosn.bucket.region",
    "obs": "fs.obs.endpoint",
}
"""These options name the region, by the scheme of the store."""
_NO_ANSWER = "HTTP error"
_LENGTH = 160


@contextmanager
def object_errors(action: str, path: str) -> Iterator[None]:
    """Raise an error of obstore in the block as the lakecore error that names `action` and `path`.

    The cause is left out: its text has addresses of requests.
    """
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError, ValueError) as err:
        translated = _translate(err, action, path)
    else:
        return
    raise translated from None


def refused(err: Exception, path: str) -> bool:
    """Return False if a conditional PUT failed because the name is taken, and raise the error otherwise.

    Without an answer, or after one that may follow the effect, the error is CommitUncertainError. So it is
    when obstore repeated the request: the object that is in its way may be its own.
    """
    from obstore.exceptions import AlreadyExistsError, InvalidPathError, UnauthenticatedError

    status, code = _answer(err)
    if status.startswith("501"):
        raise UnsupportedError(
            f"cannot publish {path}: this service has no conditional writes, which atomic commits need; "
            "use a service that has them"
        ) from None
    if isinstance(err, AlreadyExistsError) and code in _TAKEN and not _REPEATED.search(str(err)):
        return False
    is_certain = status[:1] == "4" and status[:3] not in _UNCERTAIN
    if is_certain or isinstance(err, FileNotFoundError | InvalidPathError | UnauthenticatedError):
        raise _translate(err, "publish", path) from None
    raise CommitUncertainError(f"it is not known whether {path} was published: {_text(err)}") from None


def settings_error(err: Exception, location: str) -> LakeError:
    """Return the error for settings of which obstore makes no client of `location`, such as a key that is no
    key. What obstore quotes may be a secret, and is masked with all that follows.
    """
    text = _GENERIC.sub("", str(err).split("\n", 1)[0])
    text = _ADDRESS.sub("the service", _QUOTED.sub(MASK, text))
    return InvalidOptionError(
        f"cannot open {location}: {text}; check the options with the credentials and the address of the store"
    )


def _translate(err: Exception, action: str, path: str) -> LakeError:
    from obstore.exceptions import InvalidPathError, PermissionDeniedError, UnauthenticatedError

    if _answer(err)[1] in _MISSING_ROOTS:
        return NotFoundError(f"cannot {action} {path}: the container or bucket does not exist")
    if isinstance(err, FileNotFoundError):
        return NotFoundError(f"cannot {action} {path}: the object does not exist")
    if isinstance(err, InvalidPathError):
        return _path_error(str(err), action, path)
    if isinstance(err, PermissionDeniedError | UnauthenticatedError):
        return UnavailableError(
            f"cannot {action} {path}: {_text(err)}; check the credentials and the rights of this user"
        )
    if "region" in _text(err) or _answer(err)[1] == "AuthorizationHeaderMalformed":
        option = _REGIONS.get(path.partition("://")[0], "of the service")
        return UnavailableError(f"cannot {action} {path}: {_text(err)}; check the region ({option})")
    if _NO_ANSWER in _text(err):
        return UnavailableError(
            f"cannot {action} {path}: the service did not answer ({_text(err)}); check its "
            "address, and that it can be reached from here"
        )
    return UnavailableError(f"cannot {action} {path}: {_text(err)}")


def _path_error(text: str, action: str, path: str) -> LakeError:
    name = _OBJECT.search(text)
    if name is None:
        return InvalidInputError(f"cannot {action} {path}: the path has an empty part, '.' or '..'")
    return UnsupportedError(
        f"cannot {action} {path}: the store has an object whose name begins with "
        f"{printable(name[1], _LENGTH)!r}; a name with an empty part, '.', '..' or a control character "
        "cannot be listed, so rename or delete that object"
    )


def _answer(err: Exception) -> tuple[str, str]:
    """Return status and code of the service's answer; they are empty where there was none."""
    text = str(err)
    status, code = _STATUS.search(text), _CODE.search(text)
    return (status[1].strip() if status else ""), (code[1] if code else "")


def _text(err: Exception) -> str:
    """Return what the service answered, else the kind of failure, without any part of a request."""
    status, code = _answer(err)
    if status:
        return f"{status} ({code})" if code else status
    failure = str(err).split("\n", 1)[0].rpartition(" - ")[2]
    return _ADDRESS.sub("the service", failure)[:_LENGTH]
