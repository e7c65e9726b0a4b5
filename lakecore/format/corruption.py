"""This module turns failures of pyarrow and fastavro on bad bytes into errors that name the file."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import cramjam
import pyarrow as pa
from backports import zstd
from fastavro.schema import SchemaParseException

from lakecore.errors import CorruptDataError, LakeError, UnavailableError, reason

__all__ = ["corrupt_data_errors"]

_DAMAGE = (
    pa.ArrowException,
    cramjam.DecompressionError,
    zlib.error,
    zstd.ZstdError,
    struct.error,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,  # a thrift field of another type
    OverflowError,
    SystemError,  # fastavro, given a negative length
    SchemaParseException,
)


def _is_of_storage(text: str) -> bool:
    """Return whether the ORC reader reports that reading failed, and not that the file ends too early."""
    return "Arrow error: IOError" in text and "out of bounds" not in text


@contextmanager
def corrupt_data_errors(path: str) -> Iterator[None]:
    """Turn a decoder's failure into CorruptDataError(path). Errors of lakecore and of storage pass.

    pyarrow reports damaged thrift and protobuf as OSError without an errno; with an errno, storage failed.
    Its ORC reader loses the errno, and says that the error came from Arrow's file.
    """
    try:
        yield
    except (LakeError, pa.ArrowMemoryError, pa.ArrowCancelled):
        raise
    except OSError as err:
        if err.errno is None and not _is_of_storage(str(err)):
            raise CorruptDataError(path, f"cannot be decoded: {reason(err)}") from err
        raise UnavailableError(
            f"{path}: the file could not be read: {err}; check the storage and retry"
        ) from err
    except _DAMAGE as err:
        raise CorruptDataError(path, f"cannot be decoded: {reason(err)}") from err
