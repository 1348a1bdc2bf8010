"""What docs/runbook.md tells to do about a wrong block, a runaway and budgets is done, as it stands there, on a host."""

from __future__ import annotations

import contextlib
import re
import shlex
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from spanfuse import Blocked, Guard
from spanfuse_processor.cli import cli
from tests.client.waiting import wait_until
from tests.support.hosts import Deployment, embedded
from tests.support.recorded import START_NS, attribute, chat_span, request

RUNBOOK = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text(encoding="utf-8")
CONFIG: dict[str, Any] = {
    "service": {"mode": "enforce"},
    "budgets": {
        "agent/daily": {"limit_usd": 100, "period": "daily"},
        "user/daily": {"limit_usd": 100, "period": "daily"},
        "team/monthly": {"limit_usd": 1000, "period": "monthly"},
    },
}

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with embedded(tmp_path_factory.mktemp("host"), CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def guard(host: Deployment) -> Iterator[Guard]:
    with Guard(host.guard) as made:
        assert made.wait_ready(10)
        yield made


def calls(host: Deployment, session: str, texts: list[str], first: int) -> None:
    """Calls of Ada's research, one a second until just now, whose spans have come."""
    began = time.time() - START_NS / 1e9 - first - len(texts)
    for number, text in enumerate(texts, start=first):
        span = chat_span(number, [("user", text)], session=session, at=began + number)
        span["attributes"] += [
            attribute("gen_ai.agent.name", "research"), attribute("user.id", "ada"), attribute("team.id", "payments"),
        ]  # fmt: skip
        httpx.post(f"{host.otlp}/v1/traces", json=request(span), trust_env=False).raise_for_status()


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)^## ", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def blocks(text: str, language: str) -> list[str]:
    return [
        textwrap.dedent(block)
        for block in re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    ]


def operate(host: Deployment, folder: Path, lines: str) -> str:
    """What the commands print, each of them a line; those that look end with 1 where something is blocked."""
    said = ""
    for line in filter(None, lines.splitlines()):
        found = re.fullmatch(r"(?:echo '(.*)' \| )?spanfuse (.*)", line)
        assert found, line
        with contextlib.chdir(folder):
            environment = {"SPANFUSE_API_URL": host.api, "COLUMNS": "200"}
            arguments = shlex.split(found[2], comments=True)
            done = CliRunner().invoke(cli, arguments, input=found[1], env=environment, prog_name="spanfuse")
        assert (done.stderr, done.exit_code in (0, 1)) == ("", True), line
        said += done.stdout
    return said


def refused(guard: Guard, session: str, agent: str = "research") -> str:
    """The rule that refuses a call; empty if none does."""
    try:
        guard.check(session=session, agent=agent, prompt="What is the weather in Tokyo?")
    except Blocked as refusal:
        return refusal.rule
    return ""


def test_a_wrong_block_is_released_enforcing_ends_and_the_rule_is_loosened(
    host: Deployment, guard: Guard, tmp_path: Path
) -> None:
    release, observe, loosen = blocks(section("A wrong block"), "sh")
    (tried,) = blocks(section("A wrong block"), "yaml")
    calls(host, "checkout-42", ["What is the weather in Tokyo?"] * 3, first=0)
    wait_until(lambda: refused(guard, "checkout-42") == "repeat.prompt")
    assert "repeat.prompt" in operate(host, tmp_path, release)
    wait_until(lambda: not refused(guard, "checkout-42"))
    assert "observe" in operate(host, tmp_path, f"{observe}\nspanfuse policy show")
    calls(host, "checkout-43", ["What is the weather in Tokyo?"] * 3, first=10)
    assert "would block" in operate(host, tmp_path, "spanfuse breakers")
    assert not refused(guard, "checkout-43")
    (tmp_path / "tried.yaml").write_text(tried, encoding="utf-8")
    operate(host, tmp_path, loosen)
    assert "wait_for_*" in operate(host, tmp_path, "spanfuse policy show --format json")
    assert "enforce" in operate(host, tmp_path, "spanfuse policy set --clear\nspanfuse policy show")


def test_a_runaway_is_stopped_by_a_budget_that_it_has_used_up(host: Deployment, guard: Guard, tmp_path: Path) -> None:
    lower, lay_over = blocks(section("A runaway that is not stopped"), "sh")
    (stop,) = blocks(section("A runaway that is not stopped"), "yaml")
    calls(host, "quiet-1", ["a", "b"], first=20)
    (tmp_path / "stop.yaml").write_text(stop, encoding="utf-8")
    operate(host, tmp_path, lay_over)
    calls(host, "quiet-1", ["c"], first=30)
    wait_until(lambda: refused(guard, "quiet-2") == "budget.agent/stopped")
    operate(host, tmp_path, "spanfuse policy set --clear")
    wait_until(lambda: not refused(guard, "quiet-2"))
    operate(host, tmp_path, lower.replace("0.01", "0.0000001"))
    wait_until(lambda: refused(guard, "quiet-2") == "budget.agent/daily")


def test_budgets_are_looked_at_and_put_right(host: Deployment, tmp_path: Path) -> None:
    """Every command of the section that stands between backticks, and those of the alerts on budgets."""
    text = section("Budgets are wrong") + RUNBOOK.partition("### SpanfuseBudgetBurnFast\n")[2].partition("### ")[0]
    told = [line for line in re.findall(r"`(spanfuse [^`]+)`", text) if "--config" not in line]
    calls(host, "paid-1", ["d"], first=40)
    assert len(told) >= 8
    operate(host, tmp_path, "\n".join(told))
