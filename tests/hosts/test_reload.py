"""A host reads its configuration file again: what it says of rules, budgets, tools and mode holds at once, for Guards, too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from spanfuse import Guard
from spanfuse.ledger import SqliteLedger
from spanfuse.tools.denied import ToolDenied
from spanfuse_processor.config import Config, load_config
from spanfuse_processor.config.models import LedgerSettings
from spanfuse_processor.errors import UnavailableError
from spanfuse_processor.hosts.embedded import EmbeddedHost
from spanfuse_processor.hosts.reload import Reloader, notice_of
from spanfuse_schemas import Policy, PolicyNotice
from tests.hosts.test_embedded import config, get, send
from tests.support.loops import in_loop
from tests.support.recorded import repeater
from tests.support.stream import until


class Reloading:
    """A file that is read again, and what became of it."""

    def __init__(self, path: Path, text: str = "") -> None:
        self.path = path
        self.write(text)
        self.governed: list[Config] = []
        self.told: list[str] = []
        self.failure: Exception | None = None
        self.reloader = Reloader(path, load_config(path), self._govern, self.told.append)

    async def _govern(self, found: Config) -> None:
        self.governed.append(found)
        if self.failure is not None:
            raise self.failure

    def write(self, text: str) -> None:
        self.path.write_text(text)

    async def reload(self, text: str) -> str:
        """What is said of another text."""
        self.write(text)
        await self.reloader.reload()
        return self.told.pop(0)


@pytest.fixture
def file(tmp_path: Path) -> Reloading:
    return Reloading(tmp_path / "spanfuse.yaml", "detectors: {cycle: {rounds: 4}}\n")


@in_loop
async def test_what_it_says_of_rules_budgets_tools_and_mode_holds_from_then_on(file: Reloading) -> None:
    said = await file.reload(
        "detectors: {cycle: {rounds: 5}}\n"
        "budgets: {session: {limit_usd: 2}}\n"
        "tools: {default: deny}\n"
        "policies: [{agent: a, rules: {cycle: {rounds: 6}}}]\n"
        "service: {mode: enforce, idle_timeout_s: 60}\n"
    )
    policy = file.governed[-1].policy()
    assert (policy.rules.cycle.rounds, policy.rules.budget_session.limit_usd, policy.tools_default) == (5, 2, "deny")
    assert (policy.overrides[0].agent, policy.mode, policy.idle_timeout_s) == ("a", "enforce", 60)
    assert said.endswith("was read again: detectors, budgets, policies, tools, service changed")


@in_loop
async def test_a_file_with_mistakes_changes_nothing_and_all_of_them_are_told(file: Reloading) -> None:
    said = await file.reload("detectors: {cycle: {rounds: 1}}\ntools: {defalt: deny}\n")
    assert not file.governed
    assert said.splitlines()[0] == "the configuration has mistakes; the one before stays in force"
    assert [line.split(": ")[1] for line in said.splitlines()[1:]] == ["detectors.cycle.rounds", "tools.defalt"]
    file.path.unlink()
    await file.reloader.reload()
    assert "No such file" in file.told.pop(0)


@in_loop
async def test_what_takes_a_restart_stays_as_it_was_and_is_named(file: Reloading) -> None:
    said = await file.reload(
        "extensions: {api: {endpoint: 127.0.0.1:1}}\npricing: {fallback_input_usd_per_mtok: 1}\n"
        "service: {mode: enforce, fingerprint_key: another}\n"
    )
    assert said.endswith("detectors, service changed; pricing, extensions, service changed, too, which takes a restart")
    (found,) = file.governed
    assert found.extensions.api.endpoint == "127.0.0.1:8787"
    assert (found.service.mode, found.service.fingerprint_key.get_secret_value()) == ("enforce", "")


@in_loop
async def test_the_same_file_again_changes_nothing(file: Reloading) -> None:
    assert (await file.reload(file.path.read_text())).endswith("nothing changed")


@in_loop
async def test_what_could_not_be_stored_is_told_and_the_rest_holds(file: Reloading) -> None:
    file.failure = UnavailableError("the disk is full")
    assert "not all of it was stored or published: the disk is full" in await file.reload("tools: {default: ask}\n")
    assert file.told.pop().endswith("detectors, tools changed")


def test_the_epoch_of_a_policy_grows_with_every_change_and_over_restarts() -> None:
    first = notice_of(Policy())
    second = notice_of(Policy(), first)
    assert second.epoch > first.epoch
    ahead = first.model_copy(update={"epoch": first.epoch + 10**9})
    assert notice_of(Policy(), ahead).epoch == ahead.epoch + 1


def tools(action: str, **service: Any) -> Config:
    """A configuration with one rule on tools."""
    return config(service={"mode": "enforce", **service}, tools={"rules": [{"tool": "bash", "action": action}]})


def permitted(guard: Guard) -> bool:
    """Whether a tool may be executed."""
    try:
        with guard.tool("bash", {"command": "ls"}):
            return True
    except ToolDenied:
        return False


@in_loop
async def test_guards_obey_other_rules_on_tools_without_a_restart_of_anything() -> None:
    host = EmbeddedHost(tools("deny"))
    await host.start()
    guard = Guard(f"http://127.0.0.1:{host.api_port}")
    try:
        assert await asyncio.to_thread(guard.wait_ready, 20)
        assert not permitted(guard)
        await host.govern(tools("allow"))
        await until(lambda: permitted(guard), "the Guard hears of it")
        await host.govern(tools("deny"))
        await until(lambda: not permitted(guard), "the Guard hears of it")
        await host.govern(tools("deny", mode="observe"))
        await until(lambda: permitted(guard), "the Guard hears of it")
    finally:
        await asyncio.to_thread(guard.close)
        await host.stop()


@in_loop
async def test_the_api_shows_the_policy_in_force() -> None:
    host = EmbeddedHost(tools("deny"))
    await host.start()
    try:
        first = PolicyNotice.model_validate(await get(host.api_port, "/v1/policy"))
        await host.govern(tools("ask"))
        second = PolicyNotice.model_validate(await get(host.api_port, "/v1/policy"))
        assert (await get(host.api_port, "/v1/status"))["policy_epoch"] == second.epoch
    finally:
        await host.stop()
    assert [notice.policy.tools[0].action for notice in (first, second)] == ["deny", "ask"]
    assert second.epoch > first.epoch


@in_loop
async def test_what_stands_follows_another_mode_and_calls_other_rules() -> None:
    host = EmbeddedHost(config(service={"mode": "enforce"}))
    await host.start()
    try:
        assert await send(host.http_port, *repeater(3)) == [200] * 3
        assert [d.mode for d in host.console.decisions()] == ["enforce"]
        await host.govern(config(detectors={"repeat.prompt": {"mode": "off"}}))
        assert [d.mode for d in host.console.decisions()] == ["observe"]
        assert await send(host.http_port, *repeater(3, session="other")) == [200] * 3
        assert len(host.console.decisions()) == 1
        assert (await get(host.api_port, "/v1/status"))["mode"] == "observe"
    finally:
        await host.stop()


@in_loop
async def test_a_limit_that_was_raised_holds_nobody_back() -> None:
    host = EmbeddedHost(config(budgets={"global/total": {"limit_steps": 1}}))
    await host.start()
    try:
        assert await send(host.http_port, *repeater(2)) == [200] * 2
        assert "global:*" in [d.key for d in host.console.decisions()]
        await host.govern(config(budgets={"global/total": {"limit_steps": 10}}))
        assert "global:*" not in [d.key for d in host.console.decisions()]
    finally:
        await host.stop()


@in_loop
async def test_guards_reserve_by_the_budgets_of_the_file_that_was_read_again(tmp_path: Path) -> None:
    def strict(limit: int) -> Config:
        found = config(budgets={"user/total": {"limit_steps": limit, "strength": "strict"}})
        ledger = LedgerSettings(address=SecretStr(f"sqlite:///{tmp_path}/ledger.sqlite"))
        return found.model_copy(update={"extensions": found.extensions.model_copy(update={"ledger": ledger})})

    host, ledger = EmbeddedHost(strict(5)), SqliteLedger(tmp_path / "ledger.sqlite")
    await host.start()
    try:
        assert [budget.limit for budget in await asyncio.to_thread(ledger.budgets)] == [5]
        await host.govern(strict(9))
        assert [budget.limit for budget in await asyncio.to_thread(ledger.budgets)] == [9]
    finally:
        ledger.close()
        await host.stop()
