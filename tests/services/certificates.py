"""Certificates of a private authority, as Kafka and its clients want them."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key


def _pkcs8(key: bytes) -> bytes:
    """A private key in the one form that Java reads from PEM."""
    return load_pem_private_key(key, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class Certificates:
    """A certificate authority, a server certificate for loopback and a client certificate, as PEM files."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.cafile = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.cafile))
        self.server = self._write(authority.issue_cert("127.0.0.1", "localhost"), folder / "server.pem")
        """Key and certificate chain of the server in one file: a PEM key store of Kafka."""
        client = authority.issue_cert("client.spanfuse.test")
        self.keyfile = self._write(client, folder / "client.pem")
        """Key and certificate chain of the client; serves as `certfile` and as `keyfile`."""
        self.certfile = self.keyfile

    @staticmethod
    def _write(issued: trustme.LeafCert, path: Path) -> Path:
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        path.write_bytes(_pkcs8(issued.private_key_pem.bytes()) + chain)
        path.chmod(0o600)
        return path
