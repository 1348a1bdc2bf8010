"""Who may send: clients that know the token, over a connection that TLS protects."""

from __future__ import annotations

import hmac
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spanfuse_processor.errors import ConfigError
from spanfuse_processor.otlp.quiet import grpc
from spanfuse_processor.serving import presented

if TYPE_CHECKING:
    from pydantic import SecretStr

    from spanfuse_processor.config import ServerTls


class Bearer:
    """Admits who presents the token; everybody, if there is none.

    Args:
        token: the secret.
    """

    def __init__(self, token: SecretStr | None) -> None:
        self._token = None if token is None else token.get_secret_value().encode()

    def admits(self, authorization: str | bytes | None) -> bool:
        """Whether a client may send that presents this as its `Authorization`."""
        if self._token is None:
            return True
        return hmac.compare_digest(presented(authorization), self._token)


def http_tls(tls: ServerTls | None) -> dict[str, Any] | None:
    """The TLS options of the HTTP server; none without TLS.

    Raises:
        ConfigError: the files cannot be used.
    """
    if tls is None:
        return None
    _check(tls)
    options: dict[str, Any] = {"ssl_certfile": tls.cert_file, "ssl_keyfile": tls.key_file}
    if tls.client_ca_file:
        options |= {"ssl_ca_certs": tls.client_ca_file, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return options


def grpc_tls(tls: ServerTls | None) -> Any:
    """The credentials of the gRPC server; none without TLS.

    Raises:
        ConfigError: the files cannot be used.
    """
    if tls is None:
        return None
    _check(tls)
    authority = Path(tls.client_ca_file).read_bytes() if tls.client_ca_file else None
    pair = (Path(tls.key_file).read_bytes(), Path(tls.cert_file).read_bytes())
    return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)


def _check(tls: ServerTls) -> None:
    """Load the files once: what is wrong with them, gRPC would keep to itself."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.cert_file, tls.key_file)
        if tls.client_ca_file:
            context.load_verify_locations(tls.client_ca_file)
    except OSError as error:
        raise ConfigError([f"receivers.otlp: TLS files cannot be used: {error}"]) from error
