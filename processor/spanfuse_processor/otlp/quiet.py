"""gRPC without its own log: a line for each stranger whose handshake fails would fill ours. The operator may ask for it."""

from __future__ import annotations

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc

__all__ = ["grpc"]
