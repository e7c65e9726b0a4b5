"""This module has the options of a table for the local copies of its files (Paimon's `lookup.cache…`)."""

from __future__ import annotations

from collections.abc import Mapping

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.options import Option, parse_bool, parse_duration_ms, parse_size

__all__ = ["CacheOptions"]

_HOUR = 3_600_000
_MEMORY = 256 << 20
_CODECS = {"none": None, "lz4": "lz4", "zstd": "zstd"}


def _parse_codec(text: str) -> str | None:
    value = text.strip().lower()
    if value not in _CODECS:
        raise ValueError("it must be one of none, lz4, zstd")
    return _CODECS[value]


MAX_DISK: Option[int | None] = Option(
    "lookup.cache-max-disk-size", parse_size, None, "Bytes of local copies on disk; default no limit."
)
MAX_MEMORY = Option("lookup.cache-max-memory-size", parse_size, _MEMORY, "Bytes of blocks in memory.")
RETENTION = Option(
    "lookup.cache-file-retention", parse_duration_ms, _HOUR, "Unused copies live so long (ms)."
)
CODEC: Option[str | None] = Option(
    "lookup.cache-spill-compression", _parse_codec, "zstd", "Compression of local copies: zstd, lz4 or none."
)
BLOOM = Option(
    "lookup.cache.bloom.filter.enabled", parse_bool, True, "Create bloom filters for local copies."
)
BLOOM_FPP = Option("lookup.cache.bloom.filter.fpp", float, 0.05, "Their probability of a false positive.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """These are the limits that one table sets, and how its local copies are made."""

    max_disk: int | None
    """This is the highest number of bytes on disk; None without a limit."""
    max_memory: int
    """This is the highest number of bytes of blocks in memory."""
    retention_ms: int
    """A copy that was not used for so long is removed, in milliseconds."""
    codec: str | None
    """This is the compression of copies; None for none."""
    fpp: float | None
    """This is the probability of a false positive of bloom filters; None: there are none."""

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> CacheOptions:
        """Read the options of a table. Raises InvalidOptionError naming the first wrong one and its value."""
        fpp = BLOOM_FPP.read(raw)
        if not 0 < fpp < 1:
            raise InvalidOptionError(f"option {BLOOM_FPP.key}={fpp}: give a number between 0 and 1")
        return cls(
            max_disk=MAX_DISK.read(raw),
            max_memory=MAX_MEMORY.read(raw),
            retention_ms=RETENTION.read(raw),
            codec=CODEC.read(raw),
            fpp=fpp if BLOOM.read(raw) else None,
        )
