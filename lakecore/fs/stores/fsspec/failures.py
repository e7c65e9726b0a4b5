"""This module turns errors of fsspec and of the libraries below it into lakecore's, without addresses and
values of options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lakecore.errors import InvalidOptionError, LakeError, NotFoundError, UnavailableError, mask_secrets

__all__ = ["fsspec_errors"]

_LENGTH = 200
_NO_MATCH = 404


@contextmanager
def fsspec_errors(action: str, path: str, secrets: Sequence[str]) -> Iterator[None]:
    """Raise an error of the block as the lakecore error that names `action` and `path`. `secrets` are texts
    that it does not show. The cause is left out, because its text may have them.
    """
    try:
        yield
    except LakeError:
        raise
    except Exception as err:  # noqa: BLE001 - the libraries below fsspec raise errors of any kind
        translated = _translate(_cause(err), action, path, secrets)
    else:
        return
    raise translated from None


def _cause(err: Exception) -> Exception:
    """Return what happened: fsspec tells of some failures of the connection as of a missing file."""
    cause = err.__cause__
    if not isinstance(err, FileNotFoundError) or not isinstance(cause, Exception):
        return err
    is_missing = isinstance(cause, FileNotFoundError | LookupError)
    return err if is_missing or getattr(cause, "status", None) == _NO_MATCH else cause


def _translate(err: Exception, action: str, path: str, secrets: Sequence[str]) -> LakeError:
    if isinstance(err, FileNotFoundError) and action != "open":
        return NotFoundError(f"cannot {action} {path}: the file does not exist")
    text = _text(err, secrets)
    if isinstance(err, PermissionError) or getattr(err, "status", None) in {401, 403}:
        return UnavailableError(
            f"cannot {action} {path}: permission is denied ({text}); check the credentials and the rights of "
            "this user"
        )
    if isinstance(err, TypeError) and action == "open":
        return InvalidOptionError(
            f"cannot open {path}: the file system of fsspec does not have these parameters ({text}); correct "
            "the options that begin with fsspec."
        )
    return UnavailableError(f"cannot {action} {path}: {text}")


def _text(err: Exception, secrets: Sequence[str]) -> str:
    """Return the kind of a failure and its first line, without addresses and secrets."""
    first = str(err).partition("\n")[0]
    for secret in secrets:
        first = first.replace(secret, "****")
    first = mask_secrets(re.sub(r"\w+://[^\s'\")]+", "the address", first))
    return f"{type(err).__name__}: {first[:_LENGTH]}" if first else type(err).__name__
