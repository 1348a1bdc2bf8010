"""A Kafka broker as a security team sets it up: TLS, passwords (PLAIN, SCRAM) and client certificates."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any

from tests.services.certificates import Certificates
from tests.services.kafka_broker import LocalKafka
from tests.services.process import free_ports

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecureKafka(LocalKafka):
    """Three listeners: SASL over TLS, TLS, and TLS with client certificates. The certificates are for 127.0.0.1."""

    user = "spanfuse"
    password = "correct-horse"
    mechanisms = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

    def __init__(self) -> None:
        super().__init__()
        self.certificates = Certificates(self.folder)
        self.cafile = str(self.certificates.cafile)
        """Certificate of the authority, PEM."""
        self.certfile = str(self.certificates.certfile)
        """Certificate of a client, PEM."""
        self.keyfile = str(self.certificates.keyfile)
        """Private key of that client, PEM."""
        self._sasl_port, self._ssl_port, self._mutual_port = free_ports(3)

    @property
    def brokers(self) -> str:
        """Bootstrap address of the SASL_SSL listener: `user`, `password`, one of `mechanisms`, `cafile`."""
        return f"127.0.0.1:{self._sasl_port}"

    @property
    def ssl_brokers(self) -> str:
        """Bootstrap address of the SSL listener: `cafile`."""
        return f"127.0.0.1:{self._ssl_port}"

    @property
    def mutual_brokers(self) -> str:
        """Bootstrap address of the SSL listener that asks for a certificate: `cafile`, `certfile`, `keyfile`."""
        return f"127.0.0.1:{self._mutual_port}"

    def client_settings(self, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
        """Settings for aiokafka's own clients, to look from outside at what the code under test did."""
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
            "ssl_context": ssl.create_default_context(cafile=self.cafile),
        }

    def listeners(self) -> dict[str, tuple[str, int]]:
        return {
            **super().listeners(),
            "PASSWORDS": ("SASL_SSL", self._sasl_port),
            "TLS": ("SSL", self._ssl_port),
            "MUTUAL": ("SSL", self._mutual_port),
        }

    def settings(self) -> dict[str, object]:
        login = f'username="{self.user}" password="{self.password}"'
        return {
            **super().settings(),
            "sasl.enabled.mechanisms": ",".join(self.mechanisms),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.certificates.server,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.cafile,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.passwords.plain.sasl.jaas.config": f'{_PLAIN} required user_{self.user}="{self.password}";',
            "listener.name.passwords.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required {login};",
            "listener.name.passwords.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required {login};",
        }

    def format_arguments(self) -> Sequence[str]:
        users = (f"{name}=[name={self.user},password={self.password}]" for name in self.mechanisms if name != "PLAIN")
        return [argument for user in users for argument in ("--add-scram", user)]
