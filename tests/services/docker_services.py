"""Kafka and Redis in containers, through testcontainers, where a Docker daemon answers."""

from __future__ import annotations

from typing import Any

from tests.services import kafka_service, redis_server
from tests.services.kafka_broker import SETTINGS
from tests.services.process import free_ports, wait_until

KAFKA_IMAGE = "apache/kafka:4.1.0"
REDIS_IMAGE = "redis:7-alpine"


def daemon_answers() -> bool:
    """Whether there is a Docker daemon."""
    try:
        from docker import from_env

        client = from_env(timeout=5)
        try:
            return bool(client.ping())
        finally:
            client.close()
    except Exception:  # docker has a family of errors for "no daemon", requests another
        return False


def pull_images() -> None:
    """Fetch the images, so that no test has to wait for that.

    Raises:
        Exception: of the Docker client, when it cannot.
    """
    from docker import from_env

    client = from_env()
    try:
        for image in (KAFKA_IMAGE, REDIS_IMAGE):
            client.images.pull(image)
    finally:
        client.close()


class DockerServer:
    """One container whose port appears on the same loopback port after every restart."""

    managed = True

    def __init__(self, image: str, port: int, host_port: int, env: dict[str, str], command: str | None = None) -> None:
        from testcontainers.core.container import DockerContainer

        self._container = DockerContainer(image)
        self._container.env.update(env)
        if command:
            self._container.with_command(command)
        ports: dict[str, Any] = self._container.ports  # docker takes (address, port) too: loopback only
        ports[f"{port}/tcp"] = ("127.0.0.1", host_port)
        self._created = False

    def answers(self) -> bool:
        """Whether the server answers."""
        raise NotImplementedError

    def _docker(self) -> Any:
        return self._container.get_wrapped_container()

    def start(self) -> None:
        """Start it and wait, at most a minute, until it answers."""
        if self._created:
            self._docker().start()
        else:
            self._container.start()
            self._created = True
        wait_until(self.answers, self._container.image)

    def kill(self) -> None:
        """End it with SIGKILL; its data stay."""
        self._docker().kill()
        self._docker().wait(timeout=30)

    def restart(self) -> None:
        """Stop it in order and start it again on the same port."""
        self._docker().stop(timeout=20)
        self.start()

    def stop(self) -> None:
        """End it and remove its data."""
        self._container.stop()


class DockerKafka(DockerServer):
    """Apache Kafka's own image, set up as the local process is."""

    def __init__(self) -> None:
        (port,) = free_ports(1)
        self.brokers = f"127.0.0.1:{port}"
        settings = {
            **SETTINGS,
            "log.dirs": "/tmp/kafka-logs",
            "controller.quorum.voters": "1@localhost:9093",
            "listeners": "EXTERNAL://:9092,CONTROLLER://:9093,INTERNAL://:9094",
            "advertised.listeners": f"EXTERNAL://127.0.0.1:{port},INTERNAL://localhost:9094",
            "listener.security.protocol.map": "EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
        }
        env = {f"KAFKA_{key.replace('.', '_').upper()}": str(value) for key, value in settings.items()}
        super().__init__(KAFKA_IMAGE, 9092, port, env)

    def answers(self) -> bool:
        return kafka_service.answers(self.brokers)


class DockerRedis(DockerServer):
    """Redis that writes every change to its append-only file."""

    def __init__(self) -> None:
        (port,) = free_ports(1)
        self.url = f"redis://127.0.0.1:{port}/0"
        super().__init__(REDIS_IMAGE, 6379, port, {}, "redis-server --appendonly yes")

    def answers(self) -> bool:
        return redis_server.answers(self.url)
