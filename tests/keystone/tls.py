"""Certificates for the length of a run."""

import datetime
import ipaddress
import pathlib
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

LIVES = datetime.timedelta(days=1)


class Authority:
    """Somebody who vouches for others. `file` has its own certificate, in PEM."""

    def __init__(self, folder: pathlib.Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        certificate = self._begin(self._name, self._key).add_extension(constraints, critical=True)
        self.file = folder / f"{name}.pem"
        self._write(self.file, certificate.sign(self._key, hashes.SHA256()))

    def issue(self, name: str) -> tuple[pathlib.Path, pathlib.Path]:
        """A certificate for someone on this machine, and its key: the files, in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        here = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        certificate = (
            self._begin(subject, key)
            .add_extension(x509.SubjectAlternativeName(here), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        files = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        self._write(files[0], certificate)
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return files

    def server(self, asks_for_one: bool = False) -> ssl.SSLContext:
        """What a server needs; it may want a certificate of its clients, too."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue("server"))
        if asks_for_one:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.file)
        return context

    def client(self) -> ssl.SSLContext:
        """What a client needs who trusts this authority alone."""
        return ssl.create_default_context(cafile=self.file)

    def _begin(self, subject: x509.Name, key) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - LIVES)
            .not_valid_after(now + LIVES)
        )

    @staticmethod
    def _write(file: pathlib.Path, certificate: x509.Certificate) -> None:
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
