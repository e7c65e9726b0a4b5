"""This module has the options of format tables, and decides which of them can be obeyed. It is pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.metadata.schema import TableSchema
from lakecore.options import Option, parse_bool, parse_enum
from lakecore.row.partition_path import DEFAULT_NAME
from lakecore.types.datatypes import ArrayType, AtomicType, DataType, MapType, RowType, TypeRoot, VectorType

__all__ = ["CsvRules", "FileKind", "FormatRules", "MalformedMode", "check_run_options"]


class FileKind(Enum):
    CSV = "csv"
    JSON = "json"
    TEXT = "text"
    PARQUET = "parquet"
    ORC = "orc"


class MalformedMode(Enum):
    """It says what becomes of a CSV row with a field that is no value of its type."""

    PERMISSIVE = "permissive"
    DROPMALFORMED = "dropmalformed"
    FAILFAST = "failfast"


def _kind(text: str) -> FileKind:
    try:
        return parse_enum(FileKind)(text)
    except ValueError as err:
        names = ", ".join(kind.value for kind in FileKind)
        raise ValueError(f"format tables are read with files of {names}") from err


def _delimiter(text: str) -> str:
    if not text:
        raise ValueError("it must not be empty")
    return text


FORMAT = Option("file.format", _kind, FileKind.PARQUET, "This is the format of the files.")
ONLY_VALUE = Option(
    "format-table.partition-path-only-value", parse_bool, False, "Partition directories have no column names."
)
DEFAULT_PARTITION = Option(
    "partition.default-name", str, DEFAULT_NAME, "This directory stands for a null partition value."
)
CSV_FIELDS = Option(
    "csv.field-delimiter",
    _delimiter,
    ",",
    "Its first character separates fields.",
    ("field-delimiter", "seq"),
)
CSV_LINES = Option("csv.line-delimiter", _delimiter, "\n", "It ends a row.", ("lineSep",))
CSV_QUOTE = Option("csv.quote-character", _delimiter, '"', "Its first character encloses fields.", ("quote",))
CSV_ESCAPE = Option(
    "csv.escape-character", _delimiter, "\\", "Its first character escapes within fields.", ("escape",)
)
CSV_HEADER = Option("csv.include-header", parse_bool, False, "The first line is a header.", ("header",))
CSV_NULL = Option("csv.null-literal", str, "", "This text stands for null.", ("nullvalue",))
CSV_MODE = Option(
    "csv.mode",
    parse_enum(MalformedMode),
    MalformedMode.PERMISSIVE,
    "It says what becomes of malformed rows.",
    ("mode",),
)
JSON_LINES = Option("json.line-delimiter", _delimiter, "\n", "It ends a row.")
JSON_IGNORE = Option("json.ignore-parse-errors", parse_bool, False, "What cannot be parsed is left out.")
TEXT_LINES = Option("text.line-delimiter", _delimiter, "\n", "It ends a row.", ("lineSep",))

_LINES: Mapping[FileKind, Option[str]] = {
    FileKind.CSV: CSV_LINES,
    FileKind.JSON: JSON_LINES,
    FileKind.TEXT: TEXT_LINES,
}
_OPTIONS: tuple[Option[FileKind] | Option[bool] | Option[str] | Option[MalformedMode], ...] = (
    FORMAT, ONLY_VALUE, DEFAULT_PARTITION, CSV_FIELDS, CSV_LINES, CSV_QUOTE, CSV_ESCAPE, CSV_HEADER, CSV_NULL,
    CSV_MODE, JSON_LINES, JSON_IGNORE, TEXT_LINES,
)  # fmt: skip
_IMPLEMENTATION = "format-table.implementation"
_REFUSED = {
    "metastore.partitioned-table": "the catalog lists its partitions, which are not asked for",
    "scan.ignore-corrupt-files": "rows would be left out without a word",
    "scan.ignore-lost-files": "rows would be left out without a word",
}
_NOT_IN_TEXT = (TypeRoot.VARIANT, TypeRoot.BLOB)
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvRules:
    """It says how fields of a CSV line are told apart, and what they mean."""

    separator: str
    quote: str
    escape: str
    header: bool
    null_literal: str
    mode: MalformedMode


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRules:
    """It has everything that the options say of the files."""

    kind: FileKind
    only_value: bool
    default_name: str
    line_delimiter: str
    """It is the delimiter of the text formats; a line feed for others."""
    csv: CsvRules
    ignores_errors: bool

    @classmethod
    def of(cls, table: str, schema: TableSchema) -> FormatRules:
        """Return the rules of a table. Raises UnsupportedError or InvalidOptionError naming the option or
        column that cannot be obeyed.
        """
        raw = schema.options
        kind = FORMAT.read(raw)
        lines = _LINES.get(kind)
        _check_options(table, raw, text=lines is not None)
        _check_columns(table, schema, kind)
        return cls(
            kind=kind,
            only_value=ONLY_VALUE.read(raw),
            default_name=DEFAULT_PARTITION.read(raw),
            line_delimiter="\n" if lines is None else lines.read(raw),
            csv=_csv_rules(raw),
            ignores_errors=JSON_IGNORE.read(raw),
        )


def check_run_options(table: str, options: Mapping[str, str]) -> None:
    """Raise UnsupportedError for an option that has no effect on reads of a format table."""
    keys = [key for option in _OPTIONS for key in option.keys]
    for key in options:
        if key not in keys:
            raise UnsupportedError(
                f"format table {table}: option {key} has no effect on its reads; leave it out (options for a "
                f"run are {', '.join(keys)})"
            )


def _csv_rules(raw: Mapping[str, str]) -> CsvRules:
    rules = CsvRules(
        separator=CSV_FIELDS.read(raw)[0],
        quote=CSV_QUOTE.read(raw)[0],
        escape=CSV_ESCAPE.read(raw)[0],
        header=CSV_HEADER.read(raw),
        null_literal=CSV_NULL.read(raw),
        mode=CSV_MODE.read(raw),
    )
    marks = (rules.separator, rules.quote, rules.escape)
    both_off = rules.quote == rules.escape == "\0"
    if rules.separator == "\0" or len(set(marks)) < (2 if both_off else 3):
        raise InvalidOptionError(
            f"options {CSV_FIELDS.key}, {CSV_QUOTE.key}, {CSV_ESCAPE.key}: {', '.join(map(repr, marks))} "
            "must be three different characters, and the first not the character 0"
        )
    return rules


def _check_options(table: str, raw: Mapping[str, str], *, text: bool) -> None:
    for key, reason in _REFUSED.items():
        if Option(key, parse_bool, False, "").read(raw):
            raise UnsupportedError(
                f"format table {table}: option {key}=true: this release cannot read it: {reason}; use "
                "another engine"
            )
    if text and raw.get(_IMPLEMENTATION, "").strip().lower() == "engine":
        raise UnsupportedError(
            f"format table {table}: option {_IMPLEMENTATION}=engine: what its text files mean is decided by "
            "the engine that wrote them; read it there"
        )


def _check_columns(table: str, schema: TableSchema, kind: FileKind) -> None:
    if schema.primary_keys:
        raise UnsupportedError(f"format table {table}: it has a primary key, which format tables cannot have")
    fields = [field for field in schema.fields if field.name not in schema.partition_keys]
    for field in schema.fields if kind in _LINES else ():
        if not _is_textual(field.type, nested=kind is FileKind.JSON):
            raise UnsupportedError(
                f"format table {table}: column {field.name} of type {field.type} cannot be read from "
                f"{kind.value} files"
            )
    if kind is FileKind.TEXT:
        texts = [one for one in fields if isinstance(one.type, AtomicType) and one.type.root in _TEXTS]
        if len(fields) != 1 or len(texts) != 1:
            raise UnsupportedError(
                f"format table {table}: a table of text files needs exactly one STRING column that is no "
                f"partition column; it has {', '.join(field.name for field in fields) or 'none'}"
            )


def _is_textual(data_type: DataType, *, nested: bool) -> bool:
    match data_type:
        case AtomicType(root=root):
            return root not in _NOT_IN_TEXT
        case ArrayType(element=element) | VectorType(element=element):
            return nested and _is_textual(element, nested=True)
        case MapType(key=key, value=value):
            return nested and isinstance(key, AtomicType) and _is_textual(value, nested=True)
        case RowType(fields=fields):
            return nested and all(_is_textual(field.type, nested=True) for field in fields)
    return False
