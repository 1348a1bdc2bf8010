"""The stream host: faust-streaming on Kafka. Read host.py first; nothing else in spanfuse imports faust."""
