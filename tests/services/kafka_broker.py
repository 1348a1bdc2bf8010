"""Apache Kafka itself as a local process: one KRaft node, broker and controller in one, on loopback."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.services import kafka_jars
from tests.services.kafka_service import answers
from tests.services.process import ServerProcess, accepts, free_ports

_CLUSTER_ID = "c3BhbmZ1c2UtdGVzdHMtMQ"
_MAX_BYTES = 16 * 1024 * 1024

SETTINGS: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    # A group starts at once, and a dead member may be noticed within a second.
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "message.max.bytes": _MAX_BYTES,
    "replica.fetch.max.bytes": _MAX_BYTES,
    # As in production: a topic that nobody created is an error, not a topic with the wrong settings.
    "auto.create.topics.enable": "false",
    # After a kill -9 the controller waits this long for the dead broker before it takes its successor in; default 9 s.
    "broker.session.timeout.ms": 4_000,
    "broker.heartbeat.interval.ms": 500,
}


class LocalKafka:
    """One broker with a PLAINTEXT listener. Subclasses add listeners."""

    managed = True

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="spanfuse-kafka-"))
        self.internal_port, self._controller_port = free_ports(2)
        self._process: ServerProcess | None = None

    @property
    def brokers(self) -> str:
        """Bootstrap address of the PLAINTEXT listener."""
        return f"127.0.0.1:{self.internal_port}"

    @property
    def pid(self) -> int:
        """Process id of the broker; 0 when it does not run."""
        return self._process.pid if self._process else 0

    def listeners(self) -> dict[str, tuple[str, int]]:
        """Listener name → (security protocol, port)."""
        return {"INTERNAL": ("PLAINTEXT", self.internal_port), "CONTROLLER": ("PLAINTEXT", self._controller_port)}

    def settings(self) -> dict[str, object]:
        """Broker settings."""
        listeners = self.listeners()
        addresses = {name: f"{name}://127.0.0.1:{port}" for name, (_, port) in listeners.items()}
        return {
            **SETTINGS,
            "log.dirs": self.folder / "data",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": ",".join(a for name, a in addresses.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{name}:{p}" for name, (p, _) in listeners.items()),
            "inter.broker.listener.name": "INTERNAL",
        }

    def format_arguments(self) -> Sequence[str]:
        """More arguments for `kafka.tools.StorageTool format`."""
        return ()

    def start(self) -> None:
        """Start it and wait until it answers on every listener.

        Raises:
            RuntimeError: it ended before; with the end of its log.
            TimeoutError: it did not answer within 60 s.
        """
        if self._process is None:
            self._process = self._prepare()
        self._process.start()
        self._process.wait_ready(self._ready, timeout_s=60)

    def kill(self) -> None:
        """End it with SIGKILL; its data stay."""
        if self._process:
            self._process.kill()

    def restart(self) -> None:
        """Stop it in order and start it again on the same ports."""
        if self._process:
            self._process.stop()
        self.start()

    def stop(self) -> None:
        """End it and remove its data."""
        if self._process:
            self._process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ready(self) -> bool:
        return all(accepts(port) for _, port in self.listeners().values()) and answers(
            f"127.0.0.1:{self.internal_port}"
        )

    def _prepare(self) -> ServerProcess:
        java, class_path = kafka_jars.java(), kafka_jars.class_path()
        file = self.folder / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.settings().items()))
        base = [java, f"-Dlog4j2.configurationFile={kafka_jars.LOG4J}", "-cp", class_path, "-XX:+UseSerialGC"]
        tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(file), *self.format_arguments()]
        done = subprocess.run([*base, "-XX:TieredStopAtLevel=1", *tool], capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"could not format Kafka's storage:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return ServerProcess([*base, "-Xmx512m", "-Xms256m", "kafka.Kafka", str(file)], self.folder / "kafka.log")
