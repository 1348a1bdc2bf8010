"""REST and SSE over what the core decided."""
