"""Where a Guard learns decisions from: all have `start(sink)`, `close()` and `state`.

Modules are imported by name (`spanfuse.subscribers.kafka`), so that only what is used is loaded.
"""
