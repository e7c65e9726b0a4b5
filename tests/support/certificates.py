"""Certificates of a test's own: an authority, a server's certificate, and key stores that Java reads."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]

_USAGE = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


@dataclass(frozen=True)
class Authority:
    """An authority that signs certificates of servers."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def of(cls, name: str) -> Authority:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        key = ec.generate_private_key(ec.SECP256R1())
        usage = {one: one in {"key_cert_sign", "crl_sign"} for one in _USAGE}
        certificate = (
            _builder(subject, subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(**usage), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(subject, key, certificate)

    def sign(self, folder: Path, *hosts: str) -> tuple[Path, Path]:
        """Write the certificate of a server with these names, and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            x509.IPAddress(ipaddress.ip_address(one)) if one[0].isdigit() else x509.DNSName(one)
            for one in hosts
        ]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
        certificate = (
            _builder(subject, self.name, key.public_key())
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        cert_path, key_path = folder / "server.pem", folder / "server.key"
        cert_path.write_bytes(certificate.public_bytes(Encoding.PEM))
        key_path.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        )
        return cert_path, key_path

    def key_store(self, path: Path, password: str) -> Path:
        """Write the certificate of the authority as a PKCS #12 file of trusted certificates."""
        trusted = pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(self.certificate, b"authority")],
            BestAvailableEncryption(password.encode()),
        )
        path.write_bytes(trusted)
        return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
    )
