"""OpenAI's own client in front of `spanfuse proxy`, without a line changed but its base URL."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.support.fake_provider import FakeProvider, Reply, failure

pytest.importorskip("orjson", reason="the proxy needs the extra processor")

from tests.support.proxied import Proxied, guard

MESSAGES: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "what is it?"}]


@pytest.fixture
def proxied(provider: FakeProvider) -> Iterator[Proxied]:
    with Proxied(provider, guard(local=True)) as started:
        yield started


@pytest.fixture
def client(proxied: Proxied) -> Iterator[openai.OpenAI]:
    named = {"X-Spanfuse-Session-ID": "run-1"}
    with openai.OpenAI(base_url=f"{proxied.url}/v1", api_key="sk-test", default_headers=named) as made:
        yield made


def test_it_answers_as_the_provider_does(provider: FakeProvider, client: openai.OpenAI) -> None:
    provider.default = Reply("It is a sparrow.", tools=(("search", {"q": "bird"}),))
    chat = client.chat.completions.create(model="gpt-4o", messages=MESSAGES)
    assert chat.choices[0].message.content == "It is a sparrow."
    pieces = client.chat.completions.create(model="gpt-4o", messages=[*MESSAGES, *MESSAGES], stream=True)
    assert "".join(p.choices[0].delta.content or "" for p in pieces) == "It is a sparrow."
    assert client.responses.create(model="gpt-4o", input="and this?").output_text == "It is a sparrow."
    with client.responses.stream(model="gpt-4o", input="and that?") as stream:
        assert stream.get_final_response().output_text == "It is a sparrow."
    assert client.embeddings.create(model="text-embedding-3-small", input="a bird").data[0].embedding == [0.25, -0.5]
    assert [model.id for model in client.models.list()] == ["fake-1"]


def test_a_raw_response_says_what_the_session_has_used(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(model="gpt-4o", messages=MESSAGES)
    assert raw.headers["x-spanfuse-session-steps"] == "1"
    assert float(raw.headers["x-spanfuse-session-cost"]) > 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_it_shows_why_it_was_stopped_and_does_not_try_again(
    provider: FakeProvider, proxied: Proxied, client: openai.OpenAI, stream: bool
) -> None:
    def ask() -> None:
        answer = client.chat.completions.create(model="gpt-4o", messages=MESSAGES, stream=stream)
        for _ in answer:  # a stream has to be read to its end
            pass

    for _ in range(3):
        ask()
    with pytest.raises(openai.RateLimitError) as caught:
        ask()
    assert (provider.calls, proxied.server.app.counts["blocked"]) == (3, 1)
    assert "The same prompt was sent 3 times" in str(caught.value)
    assert "spanfuse reset session:run-1" in str(caught.value)
    assert caught.value.code == "spanfuse_circuit_open"
    told = caught.value.response.json()
    assert (told["session_id"], told["state"], told["rule"]) == ("run-1", "open", "repeat.prompt")


def test_its_own_retries_of_a_provider_that_is_busy_go_on(provider: FakeProvider, client: openai.OpenAI) -> None:
    provider.script(failure(429, "slow down", retry_after="0.01"), failure(500))
    assert client.chat.completions.create(model="gpt-4o", messages=MESSAGES).choices
    assert provider.calls == 3


def test_a_wrong_header_is_a_bad_request_that_says_which(client: openai.OpenAI) -> None:
    wrong = {"X-Spanfuse-Session-Budget": "five"}
    with pytest.raises(openai.BadRequestError, match="x-spanfuse-session-budget is an amount"):
        client.chat.completions.create(model="gpt-4o", messages=MESSAGES, extra_headers=wrong)


def test_the_header_names_of_loopers_cap_steps_and_bring_the_providers_key(
    provider: FakeProvider, proxied: Proxied
) -> None:
    headers = {
        "X-Loopers-Provider-Key": "sk-proj-1",
        "X-Loopers-Session-ID": "run-42",
        "X-Loopers-Session-Max-Steps": "1",
    }
    with openai.OpenAI(base_url=f"{proxied.url}/openai/v1", api_key="lp-xxx", default_headers=headers) as client:
        client.chat.completions.create(model="gpt-4o", messages=MESSAGES)
        with pytest.raises(openai.RateLimitError, match=r"limits\.max_steps"):
            client.chat.completions.create(model="gpt-4o", messages=MESSAGES)
    assert [asked.headers["authorization"] for asked in provider.requests] == ["Bearer sk-proj-1"]


async def _asked(url: str) -> str:
    async with openai.AsyncOpenAI(base_url=f"{url}/session/run-9/v1", api_key="sk-test") as client:
        stream = await client.chat.completions.create(model="gpt-4o", messages=MESSAGES, stream=True)
        return "".join([p.choices[0].delta.content or "" async for p in stream])


def test_an_agent_that_only_has_a_base_url_names_its_session_there(provider: FakeProvider, proxied: Proxied) -> None:
    import asyncio

    assert asyncio.run(_asked(proxied.url)) == "All is well."
    assert proxied.guard.spent("run-9").steps == 1
