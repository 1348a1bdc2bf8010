"""What the OTLP receiver listens on, and who may send to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import SecretStr, field_validator, model_validator

from spanfuse_processor.config.section import Endpoint, Section, listed, plain_secret


class ServerTls(Section):
    """TLS of a server. Its files are read when it starts."""

    cert_file: str
    """File of the server's certificate and those between it and its authority, PEM."""
    key_file: str
    """File of its private key, PEM, without a passphrase."""
    client_ca_file: str = ""
    """File of the authorities whose clients may connect, PEM. Default: clients need no certificate."""

    @field_validator("cert_file", "key_file", "client_ca_file")
    @classmethod
    def _readable(cls, value: str) -> str:
        try:
            with Path(value).open("rb"):
                return value
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from None


class HttpProtocol(Section):
    """OTLP over HTTP: `/v1/traces`, `/v1/logs`, `/v1/metrics`; protobuf or JSON, gzipped or not."""

    endpoint: Endpoint = "127.0.0.1:4318"
    """Address to listen on, HOST:PORT; port 0 takes a free one. Default: loopback only, at OTLP's own port."""
    tls: ServerTls | None = None
    """TLS. Default: none."""


class GrpcProtocol(Section):
    """OTLP over gRPC."""

    endpoint: Endpoint = "127.0.0.1:4317"
    """Address to listen on, HOST:PORT; port 0 takes a free one. Default: loopback only, at OTLP's own port."""
    tls: ServerTls | None = None
    """TLS. Default: none."""


class Protocols(Section):
    """The protocols that are listed are on."""

    http: HttpProtocol | None = None
    """OTLP over HTTP."""
    grpc: GrpcProtocol | None = None
    """OTLP over gRPC."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, value: Any) -> Any:
        return listed(value)


class OtlpAuth(Section):
    """Who may send: clients that present the token, as `Authorization: Bearer TOKEN`, over HTTP and gRPC alike. Without TLS the
    token itself travels."""

    bearer_token: SecretStr
    """The token, best as `${env:VAR}`. Never shown."""

    @field_validator("bearer_token")
    @classmethod
    def _given(cls, value: SecretStr) -> SecretStr:
        return plain_secret(value)


class OtlpReceiver(Section):
    """Takes spans, and logs that carry their content, from any OTLP exporter."""

    protocols: Protocols = Protocols(http=HttpProtocol(), grpc=GrpcProtocol())
    """Default: both protocols."""
    auth: OtlpAuth | None = None
    """Default: everybody who reaches the port may send."""
