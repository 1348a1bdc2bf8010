"""How to reach Kafka."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from spanfuse_processor.config.section import Section


class KafkaSettings(Section):
    """The connection that a worker uses for all its topics, and how `topics create` lays them out."""

    brokers: str = "127.0.0.1:9092"
    """Brokers to begin with, HOST:PORT, separated by commas."""
    client_id: str = "spanfuse"
    """Name under which the brokers' logs and quotas know this client."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """`SSL`: TLS; `SASL_…`: with a user and a password."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """SASL mechanism. With `PLAIN` the password itself travels: use it with TLS."""
    sasl_username: str = ""
    """User, for SASL."""
    sasl_password: SecretStr = SecretStr("")
    """Password, for SASL; best as `${env:VAR}`. Never shown."""
    ssl_cafile: str = ""
    """File of the certificates to trust, PEM. Default: those of the system."""
    ssl_certfile: str = ""
    """File of this client's certificate, PEM, where brokers ask for one."""
    ssl_keyfile: str = ""
    """File of its private key, PEM. Default: in `ssl_certfile`."""
    partitions: int = Field(default=8, ge=1, le=10_000)
    """Partitions of the topics, and so the most workers that share the load. It cannot be changed later without losing
    the sessions' state, since it decides where a session lives."""
    replication_factor: int = Field(default=1, ge=1, le=100)
    """Copies of each partition. Default 1, which one broker can do; use 3 where there are three."""

    @field_validator("brokers")
    @classmethod
    def _brokers(cls, value: str) -> str:
        for broker in value.split(","):
            host, colon, port = broker.strip().rpartition(":")
            if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
                raise ValueError("must be HOST:PORT, separated by commas")
        return value

    @model_validator(mode="after")
    def _credentials(self) -> KafkaSettings:
        if self.security_protocol.startswith("SASL"):
            missing = [n for n in ("sasl_username", "sasl_password") if not _given(getattr(self, n))]
            if missing:
                raise ValueError(f"security_protocol {self.security_protocol} needs {' and '.join(missing)}")
        if self.ssl_keyfile and not self.ssl_certfile:
            raise ValueError("ssl_keyfile needs ssl_certfile")
        return self


def _given(value: str | SecretStr) -> bool:
    return bool(value.get_secret_value() if isinstance(value, SecretStr) else value)
