"""This module has the options of the writers as typed values: the format, codec and statistics of the files
of a level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError
from lakecore.options import Option, parse_bool, parse_size

__all__ = ["FileRules", "WriteRules"]

_FORMATS = ("parquet", "orc", "avro", "row")


def _parse_levels(text: str) -> Mapping[int, str]:
    """Parse `0:avro,5:orc` as {0: "avro", 5: "orc"}."""
    levels: dict[int, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        level, colon, value = part.partition(":")
        if not colon or not level.strip().isdigit() or not value.strip():
            raise ValueError("write level:value pairs, for example 0:avro,5:orc")
        levels[int(level)] = value.strip().lower()
    return levels


_NO_LEVELS: Mapping[int, str] = {}
FORMAT = Option("file.format", str.lower, "parquet", "Format of new data files.")
FORMAT_PER_LEVEL = Option("file.format.per.level", _parse_levels, _NO_LEVELS, "Formats by level.")
COMPRESSION = Option("file.compression", str.lower, "zstd", "Codec of new data files.")
COMPRESSION_PER_LEVEL = Option("file.compression.per.level", _parse_levels, _NO_LEVELS, "Codecs by level.")
STATS_MODE = Option("metadata.stats-mode", str.lower, "truncate(16)", "Column statistics in manifests.")
STATS_PER_LEVEL = Option(
    "metadata.stats-mode.per.level", _parse_levels, _NO_LEVELS, "Column statistics by level."
)
CHANGELOG_FORMAT: Option[str | None] = Option(
    "changelog-file.format", str.lower, None, "Format of changelog files; default is that of data files."
)
CHANGELOG_COMPRESSION: Option[str | None] = Option(
    "changelog-file.compression", str.lower, None, "Codec of changelog files."
)
CHANGELOG_STATS: Option[str | None] = Option(
    "changelog-file.stats-mode", str.lower, None, "Column statistics of changelog files."
)
SUFFIX_WITH_CODEC = Option(
    "file.suffix.include.compression", parse_bool, False, "Put the codec into file names."
)
WRITE_BUFFER = Option("write-buffer-size", parse_size, 256 << 20, "Bytes of rows a writer sorts in memory.")
SPILLABLE = Option("write-buffer-spillable", parse_bool, True, "Spill a full buffer to local disk.")
DYNAMIC_OVERWRITE = Option(
    "dynamic-partition-overwrite", parse_bool, True, "Overwrite only the partitions that are written."
)
OVERWRITE_UPGRADE = Option(
    "overwrite-upgrade", parse_bool, True, "Place files of an overwrite on the highest level."
)


@dataclass(frozen=True, slots=True)
class FileRules:
    """These are the format, codec and statistics of files of one level (or changelog files)."""

    format: str
    compression: str
    stats_mode: str
    codec_in_name: bool = False

    @classmethod
    def of(cls, raw: Mapping[str, str], level: int, *, changelog: bool = False) -> FileRules:
        """Read the rules. Raises InvalidOptionError naming the option and its value."""
        kind = FORMAT_PER_LEVEL.read(raw).get(level) or FORMAT.read(raw)
        codec = COMPRESSION_PER_LEVEL.read(raw).get(level) or COMPRESSION.read(raw)
        stats = STATS_PER_LEVEL.read(raw).get(level) or STATS_MODE.read(raw)
        if changelog:
            kind = CHANGELOG_FORMAT.read(raw) or kind
            codec = CHANGELOG_COMPRESSION.read(raw) or codec
            stats = CHANGELOG_STATS.read(raw) or stats
        return cls("", codec, stats, codec_in_name=SUFFIX_WITH_CODEC.read(raw)).with_format(kind)

    def with_format(self, file_format: str) -> FileRules:
        """Return the same rules for another format. Raises InvalidOptionError for one that cannot be
        written.
        """
        if file_format not in _FORMATS:
            raise InvalidOptionError(
                f"file format {file_format!r} (option file.format or another option of formats): this "
                "release writes only " + ", ".join(_FORMATS)
            )
        return replace(self, format=file_format)

    @property
    def extension(self) -> str:
        """Return the end of file names: `parquet`, or `zstd.parquet` where the codec is included."""
        return f"{self.compression}.{self.format}" if self.codec_in_name else self.format


@dataclass(frozen=True, slots=True)
class WriteRules:
    """This is the memory that a writer may use, and the meaning of an overwrite. Sizes are in bytes."""

    buffer_size: int
    spillable: bool
    dynamic_overwrite: bool
    overwrite_upgrade: bool

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> WriteRules:
        """Read the rules. Raises InvalidOptionError naming the option and its value."""
        return cls(
            WRITE_BUFFER.read(raw),
            SPILLABLE.read(raw),
            DYNAMIC_OVERWRITE.read(raw),
            OVERWRITE_UPGRADE.read(raw),
        )
