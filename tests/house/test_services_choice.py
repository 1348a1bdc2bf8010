"""Where the tests' Kafka and Redis come from: the environment, else Docker, else a local process."""

from __future__ import annotations

import pytest

from tests.services import choose, docker_services


class Fake:
    """A service that is started or not."""

    managed = True
    brokers = url = "127.0.0.1:1"

    def __init__(self, starts: bool = True) -> None:
        self.starts = starts
        self.log: list[str] = []

    def start(self) -> None:
        self.log.append("start")
        if not self.starts:
            raise RuntimeError("no image, and no network to pull it")

    def stop(self) -> None:
        self.log.append("stop")

    kill = restart = stop


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> dict[str, Fake]:
    found = {"docker": Fake(), "local": Fake()}
    for name in ("SPANFUSE_TEST_KAFKA", "SPANFUSE_TEST_REDIS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(docker_services, "DockerKafka", lambda: found["docker"])
    monkeypatch.setattr(choose, "LocalKafka", lambda: found["local"])
    monkeypatch.setattr(choose, "_docker", lambda: True)
    return found


def test_an_address_in_the_environment_comes_first(services: dict[str, Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    named = Fake()
    monkeypatch.setenv("SPANFUSE_TEST_KAFKA", "kafka:9092")
    monkeypatch.setattr(choose, "ExternalKafka", lambda address: named if address == "kafka:9092" else None)
    assert choose.start_kafka() is named
    assert not services["docker"].log


def test_an_address_where_nothing_answers_is_an_error_and_not_replaced(
    services: dict[str, Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPANFUSE_TEST_REDIS", "127.0.0.1:1")
    with pytest.raises(RuntimeError, match="SPANFUSE_TEST_REDIS"):
        choose.start_redis()


def test_docker_comes_next(services: dict[str, Fake]) -> None:
    assert choose.start_kafka() is services["docker"]
    assert not services["local"].log


def test_without_docker_a_local_process_serves(services: dict[str, Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_docker", lambda: False)
    assert choose.start_kafka() is services["local"]


def test_a_docker_that_cannot_run_it_is_cleaned_up_and_replaced(services: dict[str, Fake]) -> None:
    services["docker"].starts = False
    with pytest.warns(UserWarning, match="no image"):
        assert choose.start_kafka() is services["local"]
    assert services["docker"].log == ["start", "stop"]


def test_a_local_process_that_does_not_start_leaves_nothing_behind(services: dict[str, Fake]) -> None:
    services["docker"].starts = services["local"].starts = False
    with pytest.warns(UserWarning, match="local process"), pytest.raises(RuntimeError):
        choose.start_kafka()
    assert services["local"].log == ["start", "stop"]
