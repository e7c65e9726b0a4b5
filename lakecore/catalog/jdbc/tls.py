"""This module has TLS to MySQL and MariaDB, by the parameters of Java's driver in the address of a catalog.

Java reads trusted certificates from a key store. lakecore reads the same file if it is PKCS #12, so that one
address serves both.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from lakecore.data_class import dataclass
from lakecore.errors import InvalidOptionError, NotFoundError, UnsupportedError, reason

__all__ = ["TLS_PARAMETERS", "MysqlTls", "SslMode"]

_MODE = "sslMode"
_STORE = "trustCertificateKeyStoreUrl"
_STORE_TYPE = "trustCertificateKeyStoreType"
_STORE_PASSWORD = "trustCertificateKeyStorePassword"
TLS_PARAMETERS = (_MODE, _STORE, _STORE_TYPE, _STORE_PASSWORD)
"""These parameters of an address are obeyed, with the meaning of Java's driver."""


class SslMode(Enum):
    """These are the modes of Java's driver. The first two do not protect from another server that answers."""

    DISABLED = "DISABLED"
    PREFERRED = "PREFERRED"
    REQUIRED = "REQUIRED"
    VERIFY_CA = "VERIFY_CA"
    VERIFY_IDENTITY = "VERIFY_IDENTITY"

    @property
    def verifies(self) -> bool:
        """Return whether the certificate of the server has to come from a trusted authority."""
        return self in {SslMode.VERIFY_CA, SslMode.VERIFY_IDENTITY}


@dataclass(frozen=True, slots=True)
class MysqlTls:
    """It says how the connection is encrypted, and which certificates are trusted."""

    mode: SslMode = SslMode.PREFERRED
    store: str | None = None
    """It is the path of a PKCS #12 file; None means the certificates of the system."""
    password: str | None = field(default=None, repr=False)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> MysqlTls:
        """Read the parameters of an address. Raises InvalidOptionError for a mode that does not exist and
        for a key store without effect, UnsupportedError for other key stores than files of PKCS #12.
        """
        text = parameters.get(_MODE, SslMode.PREFERRED.value)
        try:
            mode = SslMode(text.upper())
        except ValueError as err:
            raise InvalidOptionError(
                f"catalog option uri: its parameter {_MODE}={text} is not known; write one of "
                f"{', '.join(one.value for one in SslMode)}"
            ) from err
        of_store = [key for key in TLS_PARAMETERS[1:] if parameters.get(key)]
        if of_store and not mode.verifies:
            raise InvalidOptionError(
                f"catalog option uri: its parameter {of_store[0]} would have no effect; set "
                f"{_MODE}=VERIFY_CA or VERIFY_IDENTITY, or leave it out"
            )
        if not of_store:
            return cls(mode)
        kind = parameters.get(_STORE_TYPE) or "JKS"
        if kind.upper() != "PKCS12" or not parameters.get(_STORE):
            raise UnsupportedError(
                f"catalog option uri: it has a key store of the type {kind}; name a file of PKCS #12 in "
                f"{_STORE}, set {_STORE_TYPE}=PKCS12, and convert others with keytool -importkeystore "
                "-deststoretype PKCS12"
            )
        return cls(mode, _path(parameters[_STORE]), parameters.get(_STORE_PASSWORD))

    def connect_parameters(self) -> dict[str, Any]:
        """Return the arguments of PyMySQL; it reads the key store. Raises NotFoundError, InvalidOptionError
        for a file that is no key store, has no certificates, or has another password.
        """
        if self.mode is SslMode.DISABLED:
            return {"ssl_disabled": True}
        if self.mode is SslMode.PREFERRED:
            return {}
        context = ssl.create_default_context(cadata=None if self.store is None else self._certificates())
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # certificates that MySQL makes break its rules
        context.check_hostname = self.mode is SslMode.VERIFY_IDENTITY
        context.verify_mode = ssl.CERT_REQUIRED if self.mode.verifies else ssl.CERT_NONE
        return {"ssl": context}

    def _certificates(self) -> bytes:
        """Return the certificates of the key store, one after the other in DER."""
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

        where = f"catalog option uri: the key store {self.store}"
        try:
            data = Path(self.store or "").read_bytes()
        except OSError as err:
            raise NotFoundError(f"{where} cannot be read: {reason(err)}") from err
        try:
            store = load_pkcs12(data, None if self.password is None else self.password.encode())
        except ValueError as err:
            raise InvalidOptionError(
                f"{where} is no file of PKCS #12, or {_STORE_PASSWORD} is not its password"
            ) from err
        certificates = [one.certificate for one in store.additional_certs]
        if not certificates:
            raise InvalidOptionError(f"{where} has no trusted certificates; import that of the authority")
        return b"".join(one.public_bytes(Encoding.DER) for one in certificates)


def _path(location: str) -> str:
    """Return the path that an address of a file names: `file:/x`, `file:///x` or `/x`."""
    parts = urlsplit(location)
    if parts.scheme not in {"", "file"} or parts.netloc not in {"", "localhost"} or not parts.path:
        raise UnsupportedError(
            f"catalog option uri: its parameter {_STORE}={location} names no local file; write file:/PATH"
        )
    return unquote(parts.path) if parts.scheme else parts.path
