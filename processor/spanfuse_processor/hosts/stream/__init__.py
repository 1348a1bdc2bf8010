"""The stream host: faust-streaming on Kafka. Read host.py first; nothing else in spanfuse imports faust."""

from spanfuse_processor.hosts.stream.worker import Worker, run_worker, serve

__all__ = ["Worker", "run_worker", "serve"]
