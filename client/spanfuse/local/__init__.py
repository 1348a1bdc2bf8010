"""The core in the agent's own process, for what cannot wait for a round trip. With the extra `local`. Nothing else in the
client imports the processor."""

from spanfuse.local.host import LocalHost, policy_of

__all__ = ["LocalHost", "policy_of"]
