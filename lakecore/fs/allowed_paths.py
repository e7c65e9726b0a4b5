"""This module decides which paths the work on a table may touch, whatever the table's records say. Pure.

Snapshots, manifests, schemas, ledgers and references to blobs are written by whoever can write into the
warehouse; lakecore runs with more rights than that. So a record may name files of its own table, and others
only below roots that somebody has declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lakecore.data_class import dataclass
from lakecore.errors import CorruptDataError, InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.fs.file_io import SERVICE
from lakecore.fs.resolve import plain_path
from lakecore.fs.table_rights import TableRights
from lakecore.options import Option, parse_list

__all__ = [
    "BLOB_ROOTS",
    "EXTERNAL_PATHS",
    "EXTERNAL_ROOTS",
    "PATH_OPTIONS",
    "AllowedPaths",
    "declared_roots",
    "is_below",
    "named_roots",
]

EXTERNAL_ROOTS: Option[tuple[str, ...] | None] = Option(
    "external-roots", parse_list, None, "Directories outside the warehouse where tables keep data files."
)
BLOB_ROOTS: Option[tuple[str, ...] | None] = Option(
    "blob-roots", parse_list, None, "Directories outside the warehouse that blob references may point into."
)
PATH_OPTIONS = (EXTERNAL_ROOTS, BLOB_ROOTS)
"""These options of a catalog say where else than in the warehouse files may be."""

EXTERNAL_PATHS: Option[tuple[str, ...]] = Option(
    "data-file.external-paths", parse_list, (), "Directories of new data files outside the table."
)
_NAMING_OPTIONS: tuple[Option[tuple[str, ...]], ...] = (
    EXTERNAL_PATHS,
    Option("global-index.external-path", parse_list, (), "Directory of global indexes outside the table."),
)
_ODD = re.compile(r"[\x00-\x1f\x7f]|(?:^|/)\.\.?(?:/|$)|(?<!:)//")
_MOST_BYTES = 4096


def is_below(path: str, root: str) -> bool:
    """Return whether `path` lies below the directory `root`, as far as their text shows. Both are plain
    paths.
    """
    return path.startswith(root if root.endswith("/") else f"{root}/")


def declared_roots(option: Option[tuple[str, ...] | None], raw: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the plain paths that a catalog option names. Raises InvalidOptionError for other text."""
    texts = option.read(raw)
    if texts is None:
        return None
    try:
        return tuple(plain_path(text) for text in texts)
    except InvalidInputError as err:
        raise InvalidOptionError(f"option {option.key}={raw.get(option.key)!r}: {err}") from err


def named_roots(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the external roots that a schema names. The whole file system is never one, nor is a location
    that cannot be opened.
    """
    roots = []
    for option in _NAMING_OPTIONS:
        for text in option.read(options):
            try:
                root = plain_path(text)
            except (InvalidInputError, UnsupportedError):
                continue
            if root != "/":
                roots.append(root)
    return tuple(roots)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedPaths:
    """Files may be read and changed below these directories, which are plain paths. Files are created,
    replaced, moved and deleted below `own`.

    `service` is lakecore's own directory, for its ledger and quarantine; no record may name a file there.
    `schema_roots` are external roots of the table's schema, `declared` those of the catalog option
    `external-roots` (None without it), and `blob_roots` those of the option `blob-roots`. `rights` are
    those of the catalog's user on the table; None where nobody asks for them.
    """

    warehouse: str
    own: str
    schema_roots: tuple[str, ...] = ()
    declared: tuple[str, ...] | None = None
    blob_roots: tuple[str, ...] = ()
    rights: TableRights | None = None

    @property
    def service(self) -> str:
        return f"{self.warehouse.rstrip('/')}/{SERVICE}"

    @property
    def roots_of_changes(self) -> tuple[str, ...]:
        """Return the directories below which no change passes through a symbolic link; they are the roots
        that `root_of_change` returns.
        """
        own = () if is_below(self.own, self.warehouse) else (self.own,)
        return (self.warehouse, *own, *(self.declared or ()))

    def of_table(
        self, table_path: str, options: Mapping[str, str], rights: TableRights | None = None
    ) -> AllowedPaths:
        """Return the rules of the same warehouse for the work on one table. `options` are those of its
        schema, `rights` those of the user.
        """
        return replace(self, own=table_path, schema_roots=named_roots(options), rights=rights)

    def with_trusted_roots(self, roots: Iterable[str]) -> AllowedPaths:
        """Return rules with more declared roots, for whose safety the caller is responsible."""
        return replace(self, declared=(*(self.declared or ()), *roots))

    def root_of_read(self, path: str) -> str:
        """Return the root that allows `path` to be read. Rule: paths anywhere in the warehouse and in `own`
        are allowed, and those below declared external roots; where none are declared, also those below roots
        that the table's schema names.

        Raises CorruptDataError for other paths, PrivilegeError for a user without rights on the table.
        """
        self._check_form(path)
        if self.rights is not None:
            self.rights.check_read_file()
        schema_roots = self.schema_roots if self.declared is None else ()
        for root in (self.warehouse, self.own, *(self.declared or ()), *schema_roots):
            if is_below(path, root) or path == root:
                return root
        raise self._outside("read", path)

    def root_of_change(self, path: str) -> str:
        """Return the root that allows `path` to be created, replaced, moved or deleted: the table's own
        directory, `.lakecore`, or a declared external root.

        Raises CorruptDataError for other paths, InvalidOptionError where the schema names the root but the
        catalog does not declare it, PrivilegeError for a user who may not change the table.
        """
        self._check_form(path)
        if self.rights is not None:
            self.rights.check_change_file(path, self.own)
        for root in (self.own, self.service):
            if is_below(path, root) or path == root:
                return self.warehouse if is_below(path, self.warehouse) else root
        return self._declared_root(path)

    def check_removable(self, path: str) -> None:
        """Raise the errors of `root_of_change`, and CorruptDataError for a file of lakecore's own, a schema
        of the table's main branch, or the table's directory itself: no record may ask for their removal.
        """
        self._check_form(path)
        if is_below(path, self.own) and self.own != self.warehouse:
            if is_below(path, f"{self.own}/schema"):
                raise CorruptDataError(
                    path,
                    "is a schema, which no record may remove; the record that names it is damaged or forged",
                )
            return
        self._declared_root(path)

    def root_of_reference(self, path: str) -> str:
        """Return the root that allows a blob reference to point to `path`: the warehouse, or a root of
        `blob-roots` or `external-roots`. Raises InvalidOptionError for other paths, PrivilegeError.
        """
        self._check_form(path)
        if self.rights is not None:
            self.rights.check_read_file()
        for root in (self.warehouse, *self.blob_roots, *(self.declared or ())):
            if is_below(path, root):
                return root
        raise InvalidOptionError(
            f"{path}: a row refers to this file, which lies outside the warehouse {self.warehouse}; if "
            "that is right, add its directory to the catalog option blob-roots, or read the references "
            "themselves with blob-as-descriptor=true"
        )

    def _declared_root(self, path: str) -> str:
        for root in self.declared or ():
            if is_below(path, root):
                return root
        if any(is_below(path, root) for root in self.schema_roots):
            raise InvalidOptionError(
                f"{path} lies below an external root of {self.own} that only the table's schema names; "
                "lakecore writes and deletes nothing there until the catalog option external-roots names it, "
                "too"
            )
        raise self._outside("changed", path)

    def _outside(self, verb: str, path: str) -> CorruptDataError:
        return CorruptDataError(
            path,
            f"lies outside {self.own if verb == 'changed' else self.warehouse} and every declared "
            f"external root, so it is not {verb}; a record that names it is damaged or forged, or its "
            "root is missing from the catalog option external-roots",
        )

    def _check_form(self, path: str) -> None:
        if _ODD.search(path) or len(path) > _MOST_BYTES:
            raise CorruptDataError(
                path[:200],
                "is not the path of a file: it contains . or .. or a control character, or is too long",
            )
