"""This module opens the storage of the tables of a REST catalog, with tokens of the server where it gives
them, and of lakecore's own files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property

from lakecore.catalog.rest.client import RestClient
from lakecore.catalog.rest.expiring_value import ExpiringValue
from lakecore.catalog.rest.options import DATA_TOKEN, SERVICE_LOCATION
from lakecore.data_class import dataclass
from lakecore.errors import UnavailableError
from lakecore.fs.allowed_paths import BLOB_ROOTS, EXTERNAL_ROOTS, AllowedPaths, declared_roots
from lakecore.fs.confined import confine
from lakecore.fs.file_io import SERVICE, FileIO
from lakecore.fs.memory import MemoryFileIO
from lakecore.fs.read_only import ReadOnlyFileIO
from lakecore.fs.resolve import file_io_for, plain_path
from lakecore.fs.routed import RoutedFileIO, ServiceRoute
from lakecore.store.cache.manifest_cache import ManifestCache

__all__ = ["RestStorage"]

_NO_SERVICE = (
    "a REST catalog has no place for lakecore's own files (leases, holds, quarantine, ledger); give a "
    "directory or prefix for them by the catalog option lakecore.service-location"
)
_NO_FILES = "memory://rest/warehouse"


@dataclass(frozen=True)
class RestStorage:
    """It opens storage by the merged options, which may be secrets."""

    client: RestClient
    options: Mapping[str, str] = field(repr=False)
    manifest_cache: ManifestCache | None = field(default=None, compare=False)
    """Plans of reads of tables keep decoded manifests there; None without `cache-enabled=true`."""

    @cached_property
    def service_root(self) -> str:
        """Return the directory below which lakecore has its own files; without one it is empty."""
        location = SERVICE_LOCATION.read(self.options)
        return plain_path(location) if location else _NO_FILES

    @cached_property
    def service(self) -> FileIO:
        """Return the storage of lakecore's own files; it refuses all changes where no place is given."""
        if self.service_root == _NO_FILES:
            return ReadOnlyFileIO(MemoryFileIO(), _NO_SERVICE)
        return file_io_for(self.service_root, self.options)

    def allowed(self, path: str, options: Mapping[str, str]) -> AllowedPaths:
        """Return the paths that the work on a table may read and change."""
        rules = AllowedPaths(
            warehouse=self.service_root,
            own=path,
            declared=declared_roots(EXTERNAL_ROOTS, self.options),
            blob_roots=declared_roots(BLOB_ROOTS, self.options) or (),
        )
        return rules.of_table(path, options)

    def of_directory(self, path: str) -> FileIO:
        """Return the storage of a directory of which the server knows nothing yet, without limits and without
        its tokens.
        """
        return file_io_for(path, self.options)

    def of_table(
        self, what: str, path: str, token_path: tuple[str, ...], schema: Mapping[str, str]
    ) -> FileIO:
        """Return the storage of the table at `path` with these schema options. With `data-token.enabled` the
        server is asked at `token_path` for credentials, when they are first needed.
        """
        root = f"{self.service_root}/{SERVICE}"
        if DATA_TOKEN.read(self.options):
            load = _TokenStorage(what, self.client, token_path, path, self.options)
            route = TokenRoute(root, self.service, ExpiringValue(load, self.client.clock))
            return confine(RoutedFileIO(route), self.allowed(path, schema))
        own = file_io_for(path, self.options)
        if type(own) is not type(self.service):
            own = RoutedFileIO(ServiceRoute(root, self.service, own))
        return confine(own, self.allowed(path, schema))


@dataclass(frozen=True, slots=True)
class _TokenStorage:
    """It opens the storage of a table with credentials that the server gives for a time."""

    what: str
    client: RestClient
    token_path: tuple[str, ...]
    path: str
    options: Mapping[str, str] = field(repr=False)

    def __call__(self) -> tuple[FileIO, int | None]:
        answer = self.client.get(f"the token of the storage of {self.what}", self.token_path)
        token, expires = answer.get("token"), answer.get("expiresAtMillis")
        if not isinstance(token, Mapping) or not isinstance(expires, int):
            raise UnavailableError(
                f"{self.what}: the server gave no token for its storage; look into the log of the server"
            )
        credentials = {str(key): str(value) for key, value in token.items()}
        return file_io_for(self.path, {**self.options, **credentials}), expires


@dataclass(frozen=True, slots=True)
class TokenRoute:
    """Paths at and below `root` are in `service`, all others in storage that is opened with tokens."""

    root: str
    service: FileIO
    opened: ExpiringValue[FileIO]
    change: Callable[[FileIO], FileIO] | None = None

    def storage_of(self, path: str) -> FileIO:
        """Return one of the two. Raises UnavailableError when the server gives no token."""
        if f"{path.rstrip('/')}/".startswith(f"{self.root}/"):
            return self.service
        storage = self.opened.get()
        return storage if self.change is None else self.change(storage)

    def with_each(self, change: Callable[[FileIO], FileIO]) -> TokenRoute:
        """Return the same choice among changed storages. Of two changes the second counts."""
        return replace(self, service=change(self.service), change=change)
