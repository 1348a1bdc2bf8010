"""Anthropic's own client in front of `spanfuse proxy`, without a line changed but its base URL."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest

from tests.support.fake_provider import FakeProvider, Reply, failure

pytest.importorskip("orjson", reason="the proxy needs the extra processor")

from tests.support.proxied import Proxied, guard

MESSAGES: list[anthropic.types.MessageParam] = [{"role": "user", "content": "what is it?"}]


@pytest.fixture
def proxied(provider: FakeProvider) -> Iterator[Proxied]:
    with Proxied(provider, guard(local=True)) as started:
        yield started


@pytest.fixture(params=["", "/anthropic"], ids=["plain", "prefixed"])
def client(proxied: Proxied, request: pytest.FixtureRequest) -> Iterator[anthropic.Anthropic]:
    named = {"X-Spanfuse-Session-ID": "run-1"}
    with anthropic.Anthropic(base_url=proxied.url + request.param, api_key="sk-test", default_headers=named) as made:
        yield made


def _text(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def test_it_answers_as_the_provider_does(provider: FakeProvider, client: anthropic.Anthropic) -> None:
    provider.default = Reply("It is a sparrow.", tools=(("search", {"q": "bird"}),))
    message = client.messages.create(model="claude-fake-1", max_tokens=99, messages=MESSAGES)
    assert _text(message) == "It is a sparrow."
    with client.messages.stream(model="claude-fake-1", max_tokens=99, messages=[*MESSAGES, *MESSAGES]) as stream:
        assert _text(stream.get_final_message()) == "It is a sparrow."
    assert client.messages.count_tokens(model="claude-fake-1", messages=MESSAGES).input_tokens == 12
    sent = provider.requests[0].headers
    assert "sk-test" in (sent.get("x-api-key", ""), sent.get("authorization", "").removeprefix("Bearer "))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_it_shows_why_it_was_stopped_and_does_not_try_again(
    provider: FakeProvider, proxied: Proxied, client: anthropic.Anthropic, stream: bool
) -> None:
    def ask() -> None:
        answer = client.messages.create(model="claude-fake-1", max_tokens=99, messages=MESSAGES, stream=stream)
        for _ in answer:  # a stream has to be read to its end
            pass

    for _ in range(3):
        ask()
    with pytest.raises(anthropic.RateLimitError) as caught:
        ask()
    assert (provider.calls, proxied.server.app.counts["blocked"]) == (3, 1)
    assert "The same prompt was sent 3 times" in str(caught.value)
    assert isinstance(caught.value.body, dict)
    assert (caught.value.body["session_id"], caught.value.body["state"]) == ("run-1", "open")


def test_its_own_retries_of_a_provider_that_is_busy_go_on(provider: FakeProvider, client: anthropic.Anthropic) -> None:
    provider.script(failure(529, "overloaded", anthropic=True, retry_after="0.01"), failure(500, anthropic=True))
    assert client.messages.create(model="claude-fake-1", max_tokens=99, messages=MESSAGES).content
    assert provider.calls == 3


def test_a_wrong_header_is_a_bad_request_that_says_which(client: anthropic.Anthropic) -> None:
    wrong = {"X-Spanfuse-Session-Max-Steps": "many"}
    with pytest.raises(anthropic.BadRequestError, match="x-spanfuse-session-max-steps is a whole number"):
        client.messages.create(model="claude-fake-1", max_tokens=99, messages=MESSAGES, extra_headers=wrong)
