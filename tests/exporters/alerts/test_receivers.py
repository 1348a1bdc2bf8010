"""What receivers get: real servers that check it by the rules of each service."""

from __future__ import annotations

import asyncio
import contextlib
import email
import email.policy
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from spanfuse_processor.config.alerts import PagerDuty, Slack, Smtp, Webhook
from spanfuse_processor.exporters.alerts.model import Alert, Notice, What
from spanfuse_processor.exporters.alerts.receivers.log import LogSender
from spanfuse_processor.exporters.alerts.receivers.pagerduty import PagerDutySender
from spanfuse_processor.exporters.alerts.receivers.slack import SlackSender
from spanfuse_processor.exporters.alerts.receivers.slack import message as slack_message
from spanfuse_processor.exporters.alerts.receivers.smtp import SmtpSender
from spanfuse_processor.exporters.alerts.receivers.webhook import WebhookSender, event_type
from spanfuse_processor.exporters.alerts.sender import LaterError, RefusedError, post, retry_after_s
from spanfuse_processor.exporters.alerts.text import body
from spanfuse_schemas import Evidence
from tests.support import alert_servers
from tests.support.hosts import free_port
from tests.support.loops import in_loop

KEY = "0123456789abcdef0123456789abcdef"
BASE = "https://spanfuse.example.com"
EVIL = '<script>alert(1)</script> <!channel> <@U1> `rm -rf` *x* & "q"\r\nBcc: all@example.com\x1b[31m' + "ü" * 400
NS = 10**9


def alert(name: str = "run-42", **more: Any) -> Alert:
    fields: dict[str, Any] = {
        "id": "a1b2c3d4e5f60718", "rule": "repeat.no_progress", "key": f"session:{name}", "severity": "warning",
        "title": f"Session {name}: stopped by repeat.no_progress", "message": f"The same search 3 times by {name}.",
        "agent": name, "user": name, "team": name, "session": name, "cost_nano_usd": 1_250_000_000, "action": "block",
        "mode": "enforce", "first_ns": 1_767_262_000 * NS, "last_ns": 1_767_262_320 * NS, "expires_at_ns": 1_767_262_620 * NS,
        "release": f"spanfuse reset session:{name}",
        "evidence": Evidence(count=3, threshold=3, value=3, unit="repeats", trace_id="a" * 32, first_span_id="1" * 16,
                             last_span_id="2" * 16, since_ns=1_767_262_000 * NS),
    }  # fmt: skip
    return Alert(**fields | more)


def notices(name: str) -> list[Notice]:
    whats: tuple[What, ...] = ("firing", "acknowledged", "resolved", "test")
    return [Notice(what, alert(name, resolved_ns=1_767_262_400 * NS if what == "resolved" else None)) for what in whats]


NAMES = pytest.mark.parametrize("name", ["run-42", EVIL, ""], ids=["plain", "evil", "empty"])


@NAMES
@in_loop
async def test_slack_takes_every_message_and_nobody_is_mentioned(name: str) -> None:
    """Sizes and shapes as Block Kit has them, whatever names agents give themselves."""
    with alert_servers.served(alert_servers.slack) as taken:
        async with httpx.AsyncClient() as client:
            for notice in notices(name):
                await SlackSender(Slack(url=taken.url), client, BASE).send(notice)
    assert (len(taken.bodies), taken.wrong) == (4, [])
    assert "<!channel>" not in json.dumps([b["text"] for b in taken.bodies])
    sections = [b for b in taken.bodies[0]["blocks"] if b["type"] == "section" and "text" in b]
    texts = [b["text"]["text"] for b in sections if b["text"]["type"] == "mrkdwn"]
    assert len(texts) == 1
    assert texts[0].count("`") == 2


def test_a_message_says_who_which_rule_the_numbers_the_money_until_when_and_what_to_do() -> None:
    """R128: all that an on-call engineer needs at three in the morning."""
    said = json.dumps(slack_message(Notice("firing", alert()), BASE), ensure_ascii=False)
    for part in (
        "repeat.no_progress", "Agent: run-42", "User: run-42", "Team: run-42", "3 of 3 repeats", "$1.2500", "blocked",
        "2026-01-01 10:17:00 UTC", "spanfuse reset session:run-42", "https://spanfuse.example.com/ui/sessions/run-42",
        "a" * 32, "2" * 16,
    ):  # fmt: skip
        assert part in said
    assert "observes" in json.dumps(slack_message(Notice("firing", alert(mode="observe"))))
    assert "somebody releases it" in json.dumps(slack_message(Notice("firing", alert(expires_at_ns=None))))
    assert body(Notice("resolved", alert())).command == ""


@NAMES
@in_loop
async def test_pagerduty_has_one_incident_by_key_from_trigger_to_resolve(name: str) -> None:
    """A test opens one and resolves it at once."""
    with alert_servers.served(alert_servers.pagerduty, 202) as taken:
        async with httpx.AsyncClient() as client:
            sender = PagerDutySender(PagerDuty(routing_key=KEY, url=taken.url), client, BASE)
            for notice in notices(name):
                await sender.send(notice)
    assert taken.wrong == []
    assert [b["event_action"] for b in taken.bodies] == ["trigger", "acknowledge", "resolve", "trigger", "resolve"]
    assert {b["dedup_key"] for b in taken.bodies} == {"spanfuse-a1b2c3d4e5f60718"}


@NAMES
@in_loop
async def test_a_webhook_is_signed_and_says_which_delivery_it_is(name: str) -> None:
    """HMAC over time and body; another body, secret or time is not accepted."""
    with alert_servers.served(alert_servers.webhook) as taken:
        async with httpx.AsyncClient() as client:
            settings = Webhook(url=taken.url, secret="s3cret", headers={"X-Token": "abc"})
            for notice in notices(name):
                await WebhookSender(settings, client, BASE).send(notice)
    assert (len(taken.bodies), taken.wrong) == (4, [])
    data, headers = taken.raw[0]
    assert headers["x-token"] == "abc"
    assert alert_servers.is_signed("s3cret", data, headers, time.time())
    assert not alert_servers.is_signed("s3cret", data + b" ", headers, time.time())
    assert not alert_servers.is_signed("other", data, headers, time.time())
    assert not alert_servers.is_signed("s3cret", data, headers, time.time() + 3600)
    assert len({headers["x-spanfuse-delivery"] for _, headers in taken.raw}) == 4


@in_loop
async def test_a_webhook_of_a_budget_has_the_fields_of_the_seed() -> None:
    """Scope, threshold, level, spent, limit and percentage, with the agent and an ISO time."""
    spent = Evidence(threshold=40, value=40.12, unit="USD", cost_nano_usd=40_120_000_000)
    found = alert(
        "email-drafter", rule="budget.agent/daily", key="agent:email-drafter", action="warn", mode="", evidence=spent,
        limit=50.0, session="", last_ns=1_736_951_400 * NS, expires_at_ns=None,
    )  # fmt: skip
    with alert_servers.served(alert_servers.webhook) as taken:
        async with httpx.AsyncClient() as client:
            await WebhookSender(Webhook(url=taken.url), client, "").send(Notice("firing", found))
    sent = taken.bodies[0]
    assert (sent["event_type"], sent["agent_id"], sent["timestamp"]) == (
        "budget.threshold_crossed", "email-drafter", "2025-01-15T14:30:00Z",
    )  # fmt: skip
    wanted = {
        "scope": "agent", "scope_id": "email-drafter", "threshold": 0.8, "level": "warning", "spent": 40.12, "limit": 50.0,
        "percentage": 80.24,
    }  # fmt: skip
    assert {name: sent["data"][name] for name in wanted} == wanted
    assert event_type(Notice("firing", alert())) == "circuit_breaker.tripped"


@in_loop
async def test_the_log_has_one_line_that_cannot_be_forged(caplog: pytest.LogCaptureFixture) -> None:
    """A name with a line break makes no second line."""
    with caplog.at_level(logging.INFO, "spanfuse.alerts"):
        await LogSender("log").send(Notice("firing", alert(EVIL)))
    assert len(caplog.messages) == 1
    assert "\n" not in caplog.text.rstrip("\n")
    assert "\x1b" not in caplog.text


@pytest.mark.parametrize(
    ("status", "headers", "error", "after_s"),
    [
        (429, {"Retry-After": "7"}, LaterError, 7),
        (503, {}, LaterError, 0),
        (500, {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, LaterError, 0),
        (400, {}, RefusedError, None),
        (404, {}, RefusedError, None),
        (302, {"Location": "http://127.0.0.1:1/"}, RefusedError, None),
    ],
)
@in_loop
async def test_what_is_worth_another_try_is_told_from_what_is_not(
    status: int, headers: dict[str, str], error: type[Exception], after_s: float | None
) -> None:
    """4xx is for good, except when it says later; the URL, a secret, is in no error."""
    with alert_servers.served(alert_servers.slack) as taken:
        taken.answers.append((status, headers))
        async with httpx.AsyncClient() as client:
            with pytest.raises(error) as caught:
                await SlackSender(Slack(url=taken.url), client, "").send(notices("a")[0])
    assert "hook" not in str(caught.value)
    assert getattr(caught.value, "after_s", None) == after_s


@in_loop
async def test_nobody_who_answers_is_worth_another_try() -> None:
    """A refused connection."""
    async with httpx.AsyncClient() as client:
        with pytest.raises(LaterError):
            await SlackSender(Slack(url="http://127.0.0.1:1/x"), client, "").send(notices("a")[0])


@in_loop
async def test_an_answer_without_end_is_not_read() -> None:
    """Its status is all that counts; the rest would fill the memory within the time of one delivery."""
    sent = 0

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
                sent += 65_536
        writer.close()

    async with await asyncio.start_server(answers, "127.0.0.1", 0) as server, httpx.AsyncClient(timeout=5) as client:
        port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(5):
            await post(client, f"http://127.0.0.1:{port}/", b"{}")
    assert sent < 20_000_000


def test_retry_after_is_seconds_or_a_date() -> None:
    """What is neither says nothing."""
    from email.utils import formatdate

    assert retry_after_s("12") == 12
    assert 50 < retry_after_s(formatdate(time.time() + 60, usegmt=True)) <= 60
    assert (retry_after_s("soon"), retry_after_s(""), retry_after_s("-5")) == (0, 0, 0)


class Mailbox:
    """A handler of aiosmtpd that keeps what comes."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.answer = "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """Take a mail."""
        if self.answer.startswith("250"):
            self.mails.append(
                (email.message_from_bytes(envelope.content, policy=email.policy.default), envelope, session.ssl)
            )
        return self.answer


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path]:
    """A certificate authority, and its file."""
    made, path = trustme.CA(), tmp_path_factory.mktemp("ca") / "ca.pem"
    made.cert_pem.write_to_path(path)
    return made, path


@pytest.fixture
def mailbox(authority: tuple[trustme.CA, Path]) -> Iterator[tuple[Mailbox, int]]:
    """A mail server that wants STARTTLS and a password."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority[0].issue_cert("localhost").configure_cert(context)
    box = Mailbox()

    def check(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=(data.login, data.password) == (b"ops", b"pw"), handled=False)

    port = free_port()
    wants: dict[str, Any] = {"require_starttls": True, "authenticator": check, "auth_required": True}
    controller = Controller(box, hostname="127.0.0.1", port=port, tls_context=context, **wants)
    controller.start()
    try:
        yield box, port
    finally:
        controller.stop()


def smtp(port: int, ca_file: Path | str, **more: Any) -> Smtp:
    given = {"server": f"localhost:{port}", "from": "spanfuse@example.com", "to": ["a@example.com", "b@example.com"]}
    return Smtp.model_validate(given | {"username": "ops", "password": "pw", "ca_file": str(ca_file)} | more)


@NAMES
@in_loop
async def test_a_mail_comes_over_tls_as_text_and_escaped_html_in_one_thread(
    name: str, mailbox: tuple[Mailbox, int], authority: tuple[trustme.CA, Path]
) -> None:
    """No header can be forged by a name, and no markup."""
    box, port = mailbox
    sender = SmtpSender(smtp(port, authority[1]), BASE, 5)
    for notice in notices(name)[::2]:
        await sender.send(notice)
    (first, envelope, tls), (second, _, _) = box.mails
    assert tls
    assert envelope.rcpt_tos == ["a@example.com", "b@example.com"]
    assert first["Bcc"] is None
    assert second["In-Reply-To"] == first["Message-ID"]
    assert second["Subject"].startswith("[spanfuse] Resolved: ")
    text, html = (first.get_body((kind,)).get_content() for kind in ("plain", "html"))
    assert "spanfuse reset session:" in text
    assert "<script>" not in html
    assert "<table>" in html


@in_loop
async def test_a_mail_server_that_is_not_trusted_or_has_no_tls_gets_nothing(
    mailbox: tuple[Mailbox, int], authority: tuple[trustme.CA, Path]
) -> None:
    """Nor does one learn the password."""
    box, port = mailbox
    with pytest.raises(RefusedError, match="not trusted"):
        await SmtpSender(smtp(port, ""), BASE, 5).send(notices("a")[0])
    with pytest.raises(RefusedError, match="535"):
        await SmtpSender(smtp(port, authority[1], password="wrong"), BASE, 5).send(notices("a")[0])
    plain = Controller(box, hostname="127.0.0.1", port=(port := free_port()))
    plain.start()
    try:
        with pytest.raises(RefusedError, match="STARTTLS"):
            await SmtpSender(smtp(port, authority[1]), BASE, 5).send(notices("a")[0])
    finally:
        plain.stop()
    assert box.mails == []


@pytest.mark.parametrize(("answer", "error"), [("451 later", LaterError), ("554 never", RefusedError)])
@in_loop
async def test_a_mail_that_is_refused_for_now_is_worth_another_try(
    answer: str, error: type[Exception], mailbox: tuple[Mailbox, int], authority: tuple[trustme.CA, Path]
) -> None:
    """4yz is for now, 5yz for good; nobody there is for now."""
    box, port = mailbox
    box.answer = answer
    with pytest.raises(error):
        await SmtpSender(smtp(port, authority[1]), BASE, 5).send(notices("a")[0])
    with pytest.raises(LaterError):
        await SmtpSender(smtp(1, authority[1]), BASE, 1).send(notices("a")[0])
