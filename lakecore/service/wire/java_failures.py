"""This module writes failures as Java clients read them, and reads the kind of those that Java wrote. Pure.

Java sends exceptions by its own serialisation of objects (Java Object Serialization Specification, chapter
6). What comes from a server is never made into objects: only the name of its class is read.
"""

from __future__ import annotations

import struct

from lakecore.data_class import dataclass

__all__ = ["LOOKUP_FAILED", "UNKNOWN_BUCKET", "JavaClass", "encode_failure", "failure_class"]

_MAGIC = b"\xac\xed\x00\x05"
_OBJECT = b"\x73"
_CLASS = b"\x72"
_STRING = b"\x74"
_END = b"\x78"
_NULL = b"\x70"
_SERIALIZABLE = 2
_WRITES_ITSELF = 1
_HEAD = _MAGIC + _OBJECT + _CLASS


@dataclass(frozen=True, slots=True)
class JavaClass:
    """These are the names of an exception's class and its parents below Throwable, with their versions."""

    line: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """Return the name of the class itself."""
        return self.line[0][0]


_EXCEPTION = ("java.lang.Exception", -3387516993124229948)
_THROWABLE = ("java.lang.Throwable", -3042686055658047285)
LOOKUP_FAILED = JavaClass((("java.lang.RuntimeException", -7034897190745766939), _EXCEPTION))
UNKNOWN_BUCKET = JavaClass(
    (
        ("org.apache.paimon.service.exceptions.UnknownPartitionBucketException", 1),
        ("org.apache.paimon.service.network.BadRequestException", 1),
        _EXCEPTION,
    )
)


def encode_failure(kind: JavaClass, message: str) -> bytes:
    """Return an exception with this message, without cause and stack."""
    parents = b"".join(_description(*error_class, _SERIALIZABLE, b"\0\0") for error_class in kind.line)
    fields = b"\0\1L" + _text("detailMessage") + _STRING + _text("Ljava/lang/String;")
    throwable = _description(*_THROWABLE, _SERIALIZABLE | _WRITES_ITSELF, fields)
    return _MAGIC + _OBJECT + parents + throwable + _NULL + _STRING + _text(message) + _END


def failure_class(body: bytes) -> str:
    """Return the name of the class of an exception; empty where the bytes are none."""
    if not body.startswith(_HEAD) or len(body) < len(_HEAD) + 2:
        return ""
    (size,) = struct.unpack_from(">H", body, len(_HEAD))
    name = body[len(_HEAD) + 2 :][:size]
    text = name.decode("ascii", "replace")
    return text if len(name) == size and text.replace(".", "").replace("$", "").isidentifier() else ""


def _description(name: str, version: int, flags: int, fields: bytes) -> bytes:
    return _CLASS + _text(name) + struct.pack(">qB", version, flags) + fields + _END


def _text(value: str) -> bytes:
    data = value.encode("ascii", "replace")[:65535]
    return struct.pack(">H", len(data)) + data
