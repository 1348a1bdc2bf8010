"""`spanfuse demo`: five real agent processes, a fake LLM and the embedded host, on loopback ports of their own."""
