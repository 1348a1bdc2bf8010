"""`spanfuse proxy` as a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

COMMAND = [sys.executable, "-m", "spanfuse_processor", "proxy"]


@dataclass(frozen=True)
class ProxyProcess:
    """A running proxy."""

    process: subprocess.Popen[str]
    url: str


@contextmanager
def proxy_process(provider_url: str, *options: str, listen: str = "127.0.0.1:0") -> Iterator[ProxyProcess]:
    """Run it before a provider, and stop it as a service manager does."""
    urls = ["--openai-url", f"{provider_url}/v1", "--anthropic-url", provider_url]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPANFUSE_", "OTEL_"))}
    command = [*COMMAND, "--listen", listen, *urls, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        for told in process.stderr:
            found = re.match(r"spanfuse proxy on (\S+)", told)
            if found is not None:
                yield ProxyProcess(process, found[1])
                return
        raise AssertionError("the proxy did not start")
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.communicate()


@contextmanager
def provider_process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The fake provider as a process: it, and its URL."""
    command = [sys.executable, "-m", "tests.support.fake_provider"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()
