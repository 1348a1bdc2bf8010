"""Mends aiokafka's connections on uvloop, whose transports answer a write after a reset with RuntimeError.

aiokafka expects OSError there. In the moment between the reset and its notice of it, RuntimeError ends the task that renews
a client's metadata; everything that waits for metadata then waits for ever: a consumer has lost its group for good, stands
still, and cannot even be closed. That moment comes when a broker dies under several connections at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka import conn
from aiokafka.errors import KafkaConnectionError, KafkaError


class Connection(conn.AIOKafkaConnection):  # type: ignore[misc]
    """A connection to a broker; to write after a reset is a connection error."""

    def send(self, request: Any, expect_response: bool = True) -> Any:
        """Send a request.

        Raises:
            KafkaConnectionError: if the connection is lost.
        """
        with self._reset_is_a_loss():
            return super().send(request, expect_response)

    def _send_sasl_token(self, payload: bytes, expect_response: bool = True) -> Any:
        with self._reset_is_a_loss():
            return super()._send_sasl_token(payload, expect_response)

    @contextmanager
    def _reset_is_a_loss(self) -> Iterator[None]:
        try:
            yield
        except KafkaError:  # these derive from RuntimeError too
            raise
        except RuntimeError as error:
            self.close(reason=conn.CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(f"Connection at {self.host}:{self.port} broken: {error}") from error


def mend() -> None:
    """Have all clients of this process use such connections from now on."""
    conn.AIOKafkaConnection = Connection
