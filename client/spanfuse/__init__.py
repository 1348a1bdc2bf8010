"""The in-process SDK of spanfuse."""
