"""This module connects to Azure's blob storage, with the option names of Hadoop's drivers, which Paimon
takes.

An object has the same name with the schemes abfs, abfss, wasb and wasbs. The plain form is
`abfs://container@account.dfs.…/path`. Requests go to the blob service of the account, over TLS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lakecore.data_class import dataclass
from lakecore.errors import InvalidInputError, InvalidOptionError, UnsupportedError
from lakecore.fs.stores.client import open_client
from lakecore.fs.stores.object_store import ObjectStoreFileIO
from lakecore.fs.stores.store import Store
from lakecore.options import Option

__all__ = ["AZURE_STORE", "AzureConnection"]

_CLOUDS = ("core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net")
_ACCOUNT = re.compile(
    rf"([a-z0-9]{{3,24}})\.(?:dfs|blob)\.({'|'.join(re.escape(cloud) for cloud in _CLOUDS)})"
)
_CONTAINER = re.compile(r"\$web|\$root|[a-z0-9][a-z0-9-]{1,62}")
_EXAMPLE = "abfs://container@account.dfs.core.windows.net/path"

ENDPOINT: Option[str | None] = Option(
    "lakecore.azure.endpoint", str, None, "Address of the blob service; default that of the account."
)
_OAUTH2 = "fs.azure.account.oauth2."
_PROVIDERS = "org.apache.hadoop.fs.azurebfs.oauth2."
_TENANT = re.compile(r"https://([^/]+)/([^/]+)/oauth2/(?:v2\.0/)?token")


def _of_account(key: str, doc: str) -> Option[str | None]:
    return Option(key, str, None, f"{doc} `.ACCOUNT.dfs.core.windows.net` may follow the key.")


AUTH_TYPE = _of_account("fs.azure.account.auth.type", "SharedKey (default), OAuth or SAS.")
KEY = _of_account("fs.azure.account.key", "Shared key; default the environment's credentials.")
SAS = _of_account("fs.azure.sas.fixed.token", "Shared access signature.")
PROVIDER = _of_account(
    "fs.azure.account.oauth.provider.type", "ClientCredsTokenProvider or MsiTokenProvider."
)
CLIENT_ID = _of_account(f"{_OAUTH2}client.id", "Client of OAuth.")
CLIENT_SECRET = _of_account(f"{_OAUTH2}client.secret", "Secret of the client of OAuth.")
CLIENT_ENDPOINT = _of_account(
    f"{_OAUTH2}client.endpoint", "https://login.microsoftonline.com/TENANT/oauth2/token."
)
_OF_ACCOUNT = (AUTH_TYPE, KEY, SAS, PROVIDER, CLIENT_ID, CLIENT_SECRET, CLIENT_ENDPOINT)


@dataclass(frozen=True)
class AzureConnection:
    """It says how to reach the accounts. Keys and signatures are left out of `repr`."""

    endpoint: str | None = None
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    scheme: str = field(default="abfs", init=False)
    has_folders: bool = field(default=True, init=False)
    can_create: bool = field(default=True, init=False)

    @classmethod
    def from_options(cls, raw: Mapping[str, str]) -> AzureConnection:
        """Read catalog options. Raises as `credentials` does, for each account that an option names, and for
        any account if none does.
        """
        chosen = {key: value for key, value in raw.items() if _accepts(key) or key in _OWN_KEYS}
        connection = cls(ENDPOINT.read(raw), tuple(sorted(chosen.items())))
        accounts = {match["account"] for match in map(_ACCOUNT_KEY.fullmatch, chosen) if match}
        for account in accounts or {""}:
            credentials(chosen, account)
        return connection

    def connect(self, root: str) -> Any:
        """Return obstore's client for `container@account.dfs.…`."""
        container, _, host = root.partition("@")
        match = _ACCOUNT.fullmatch(host)
        if match is None or not _CONTAINER.fullmatch(container):
            raise InvalidInputError(f"abfs://{root} is not a location on Azure; write {_EXAMPLE}")
        account, cloud = match.groups()
        settings = {
            "account_name": account,
            "endpoint": self.endpoint or f"https://{account}.blob.{cloud}",
            **credentials(dict(self.options), account),
        }
        location = f"{self.scheme}://{root}"
        return open_client("AzureStore", "azure", location, settings)


def credentials(options: Mapping[str, str], account: str) -> dict[str, str]:
    """Return obstore's settings for an account; none means the environment's credentials.

    Raises UnsupportedError for kinds of credentials that lakecore does not have, InvalidOptionError when a
    part is missing or contradicts the kind.
    """
    texts = {option.key: _read(options, option.key, account) for option in _OF_ACCOUNT}
    kind = (texts[AUTH_TYPE.key] or "").lower()
    if kind == "oauth":
        return _oauth(texts)
    if kind == "sas" or (kind == "" and texts[SAS.key] and not texts[KEY.key]):
        return {"sas_key": _value(texts, SAS, kind), "credential_type": "sas_token"}
    if kind not in ("", "sharedkey"):
        raise UnsupportedError(
            f"option {AUTH_TYPE.key}={texts[AUTH_TYPE.key]}: lakecore has no such credentials; use "
            "SharedKey, OAuth or SAS"
        )
    if texts[KEY.key] is None and kind == "":
        return {}
    return {"account_key": _value(texts, KEY, kind), "credential_type": "access_key"}


def _oauth(texts: Mapping[str, str | None]) -> dict[str, str]:
    provider = (texts[PROVIDER.key] or "").removeprefix(_PROVIDERS)
    if provider == "MsiTokenProvider":
        client = texts[CLIENT_ID.key]
        return {"credential_type": "managed_identity", **({"client_id": client} if client else {})}
    if provider != "ClientCredsTokenProvider":
        raise UnsupportedError(
            f"option {PROVIDER.key}={provider}: lakecore has no such provider; use "
            f"{_PROVIDERS}ClientCredsTokenProvider or {_PROVIDERS}MsiTokenProvider"
        )
    address = _value(texts, CLIENT_ENDPOINT, "oauth")
    match = _TENANT.fullmatch(address)
    if match is None:
        raise InvalidOptionError(
            f"option {CLIENT_ENDPOINT.key}={address}: write https://login.microsoftonline.com/TENANT/oauth2/token"
        )
    return {
        "credential_type": "client_secret",
        "client_id": _value(texts, CLIENT_ID, "oauth"),
        "client_secret": _value(texts, CLIENT_SECRET, "oauth"),
        "authority_host": f"https://{match[1]}",
        "tenant_id": match[2],
    }


def _value(texts: Mapping[str, str | None], option: Option[str | None], kind: str) -> str:
    value = texts[option.key]
    if not value:
        raise InvalidOptionError(f"option {option.key} is missing; {AUTH_TYPE.key}={kind} needs it")
    return value


def _read(options: Mapping[str, str], key: str, account: str) -> str | None:
    """Return the value for an account, else the one for all accounts."""
    for full, value in options.items():
        match = _ACCOUNT_KEY.fullmatch(full)
        if match and match["key"] == key and match["account"] == account:
            return value
    return Option(key, str, None, "").read(options)


_OWN_KEYS = frozenset(option.key for option in _OF_ACCOUNT)
_ACCOUNT_KEY = re.compile(
    rf"(?P<key>{'|'.join(re.escape(key) for key in sorted(_OWN_KEYS))})\."
    rf"(?P<account>[a-z0-9]{{3,24}})\.(?:dfs|blob)\.(?:{'|'.join(re.escape(cloud) for cloud in _CLOUDS)})"
)


def _accepts(key: str) -> bool:
    return _ACCOUNT_KEY.fullmatch(key) is not None


def _plain(scheme: str, rest: str) -> str:
    authority, *parts = [part for part in rest.split("/") if part] or [""]
    container, mark, host = authority.partition("@")
    match = _ACCOUNT.fullmatch(host.lower())
    if not mark or match is None or not _CONTAINER.fullmatch(container):
        raise InvalidInputError(
            f"{scheme}:{rest} is not a location on Azure: it needs a container and an account of "
            f"{', '.join(_CLOUDS)}; write {_EXAMPLE}"
        )
    return "/".join([f"abfs://{container}@{match[1]}.dfs.{match[2]}", *parts])


AZURE_STORE = Store(
    schemes=("abfs", "abfss", "wasb", "wasbs"),
    example=_EXAMPLE,
    plain=_plain,
    open=lambda options: ObjectStoreFileIO(AzureConnection.from_options(options)),
    options=(ENDPOINT, *_OF_ACCOUNT),
    accepts=_accepts,
)
