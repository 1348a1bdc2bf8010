"""Alerts of a running `spanfuse up`, as an on-call engineer handles them from a terminal."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.client.waiting import wait_until
from tests.support import alert_servers
from tests.support.alerting import loop
from tests.support.hosts import SPANFUSE, Deployment, embedded, free_port

pytestmark = pytest.mark.integration


def spanfuse(up: Deployment, *arguments: str, code: int = 0) -> str:
    """Run a command; its output and errors."""
    env = os.environ | {"SPANFUSE_API_URL": up.api, "COLUMNS": "80"}
    command = [*SPANFUSE, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert ran.returncode == code, ran.stderr
    return ran.stdout + ran.stderr


def test_an_alert_is_listed_taken_on_snoozed_and_its_command_releases_the_session(tmp_path: Path) -> None:
    """From spans to the webhook, and back through the command that stands in the message."""
    with alert_servers.served(alert_servers.webhook) as hook:
        dead = {"url": f"http://127.0.0.1:{free_port()}/", "secret": "s3cret"}
        receivers = {"webhook": {"url": hook.url, "secret": "s3cret"}, "webhook/dead": dead}
        config = {"exporters": {"alerts": {"receivers": receivers}}, "service": {"mode": "enforce"}}
        with embedded(tmp_path, config) as up, httpx.Client() as client:
            for one in loop("run 9", 6, agent="lister"):
                client.post(f"{up.otlp}/v1/traces", json=one).raise_for_status()
            wait_until(lambda: len(hook.bodies) == 1, 15)
            listed = spanfuse(up, "alerts", "list", "--state", "firing")
            assert "session:run 9" in listed
            assert max(map(len, listed.splitlines())) <= 80
            (row,) = json.loads(spanfuse(up, "alerts", "list", "--format", "json"))["alerts"]
            assert "taken on by" in spanfuse(up, "alerts", "ack", row["id"])
            assert "snoozed until" in spanfuse(up, "alerts", "snooze", row["id"], "--for", "2h")
            assert "not snoozed" in spanfuse(up, "alerts", "snooze", row["id"], "--for", "0s")
            assert "no such alert" in spanfuse(up, "alerts", "ack", "nobody", code=1)
            told = spanfuse(up, "alerts", "test", code=1)
            assert "not delivered: webhook/dead" in told
            assert "webhook" in spanfuse(up, "alerts", "test", "webhook")
            assert "s3cret" not in listed + told + spanfuse(up, "status", "--format", "json")
            released = subprocess.run(
                hook.bodies[0]["release"].replace("spanfuse", " ".join(SPANFUSE), 1),
                shell=True, check=True, timeout=60, env=os.environ | {"SPANFUSE_API_URL": up.api}, capture_output=True,
            )  # fmt: skip
            assert b"closed" in released.stdout
            wait_until(lambda: any(body["state"] == "resolved" for body in hook.bodies), 15)
