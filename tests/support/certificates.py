"""Certificates that nobody but the test trusts: one for 127.0.0.1, and those of an authority of the test's own."""

import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = timedelta(days=1)


def self_signed(path: Path) -> Path:
    """Certificate and key in one file."""
    authority = Authority("a test", hosts=["127.0.0.1"])
    path.write_bytes(authority.pem + _private(authority.key))
    return path


class Authority:
    """Its certificate signs itself, and is good for `hosts` too."""

    def __init__(self, name: str, *, hosts: Sequence[str] = ()) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self._certificate = _unsigned(self._name, self.key, hosts=hosts, signs=True).sign(self.key, hashes.SHA256())
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, *, hosts: Sequence[str] = (), password: str = "") -> tuple[bytes, bytes]:
        """A certificate and its key, which is encrypted if there is a password."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _unsigned(_named(name), key, hosts=hosts, signs=False).issuer_name(self._name)
        certificate = builder.sign(self.key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), _private(key, password=password)

    def revoke(self, *certificates: bytes) -> bytes:
        """A list of revoked certificates."""
        now = datetime.now(UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._name)
        builder = builder.last_update(now - DAY).next_update(now + DAY)
        for pem in certificates:
            number = x509.load_pem_x509_certificate(pem).serial_number
            revoked = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now - DAY).build()
            builder = builder.add_revoked_certificate(revoked)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _unsigned(
    name: x509.Name, key: ec.EllipticCurvePrivateKey, *, hosts: Sequence[str], signs: bool
) -> x509.CertificateBuilder:
    """`signs`: the certificate of an authority, which is its own issuer."""
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + DAY)
        .add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
    )
    if signs:
        builder = builder.issuer_name(name)
    names = [_general(host) for host in hosts]
    return builder.add_extension(x509.SubjectAlternativeName(names), critical=False) if names else builder


def _general(host: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    return x509.DNSName(host)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _private(key: ec.EllipticCurvePrivateKey, *, password: str = "") -> bytes:
    encryption = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
