"""The core in the agent's own process, for what cannot wait for a round trip. With the extra `local`. Nothing else in the
client imports the processor."""

try:
    from spanfuse.local.host import LocalHost, policy_of
except ImportError as error:  # pragma: no cover  Proven in an interpreter without it.
    raise ImportError("rules in this process need the extra local: pip install 'spanfuse[local]'") from error

__all__ = ["LocalHost", "policy_of"]
