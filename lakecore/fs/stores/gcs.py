"""This module connects to Google Cloud Storage, with the option names of Google's Hadoop connector, which
Paimon takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, UnsupportedError
from lakecore.fs.stores.client import open_client
from lakecore.fs.stores.object_store import ObjectStoreFileIO
from lakecore.fs.stores.store import Store, bucket_path
from lakecore.options import Option

__all__ = ["GCS_STORE", "GcsConnection"]

AUTH_TYPE: Option[str | None] = Option(
    "fs.gs.auth.type",
    str,
    None,
    "SERVICE_ACCOUNT_JSON_KEYFILE or UNAUTHENTICATED; default Google's application default credentials.",
    ("gs.auth.type",),
)
KEY_FILE: Option[str | None] = Option(
    "fs.gs.auth.service.account.json.keyfile",
    str,
    None,
    "Path of the JSON key of a service account.",
    ("gs.auth.service.account.json.keyfile",),
)
ROOT_URL: Option[str | None] = Option(
    "fs.gs.storage.root.url", str, None, "Address of the service; default Google's.", ("gs.storage.root.url",)
)
_KEY_FILE_TYPE = "SERVICE_ACCOUNT_JSON_KEYFILE"
_NOBODY = "UNAUTHENTICATED"
_DEFAULT_TYPES = frozenset({"APPLICATION_DEFAULT", "COMPUTE_ENGINE"})
_EXAMPLE = "gs://bucket/path"
_NO_KEY = '{"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": true}'


@dataclass(frozen=True, slots=True)
class GcsConnection:
    """It says how to reach the service. The key itself stays in its file."""

    key_file: str | None = None
    root_url: str | None = None
    anonymous: bool = False
    scheme: str = field(default="gs", init=False)
    has_folders: bool = field(default=False, init=False)
    can_create: bool = field(default=True, init=False)

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> GcsConnection:
        """Read catalog options. Raises UnsupportedError for a kind of credentials that lakecore does not
        have, InvalidOptionError for a key file without its kind, and for a kind without its file.
        """
        kind, key_file = AUTH_TYPE.read(raw), KEY_FILE.read(raw)
        name = (kind or "").strip().upper()
        if name not in {"", _KEY_FILE_TYPE, _NOBODY, *_DEFAULT_TYPES}:
            raise UnsupportedError(
                f"option {AUTH_TYPE.key}={kind}: lakecore has no such credentials; use {_KEY_FILE_TYPE}, "
                f"{_NOBODY}, or leave it out for the application default credentials"
            )
        if (key_file is None) == (name == _KEY_FILE_TYPE):
            raise InvalidOptionError(
                f"give both {AUTH_TYPE.key}={_KEY_FILE_TYPE} and {KEY_FILE.key}, or neither"
            )
        return cls(key_file, ROOT_URL.read(raw), name == _NOBODY)

    def connect(self, root: str) -> Any:
        """Return obstore's client for a bucket."""
        settings: dict[str, Any] = {}
        if self.key_file is not None:
            settings["service_account"] = self.key_file
        if self.anonymous:
            settings |= {"service_account_key": _NO_KEY, "skip_signature": True}
        if self.root_url is not None:
            settings["base_url"] = self.root_url
        location = f"{self.scheme}://{root}"
        return open_client("GCSStore", "gcs", location, settings)


GCS_STORE = Store(
    schemes=("gs",),
    example=_EXAMPLE,
    plain=lambda scheme, rest: bucket_path(scheme, rest, _EXAMPLE),
    open=lambda options: ObjectStoreFileIO(GcsConnection.from_options(options)),
    options=(AUTH_TYPE, KEY_FILE, ROOT_URL),
)
