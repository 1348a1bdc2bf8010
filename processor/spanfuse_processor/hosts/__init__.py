"""The processes that run the core: embedded, stream, replay."""
