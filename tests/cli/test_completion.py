"""`spanfuse completion`: the scripts of three shells, sourced where the shell is there, and names from the API."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Spanfuse
from tests.support.api import READ, SETTINGS
from tests.support.console import FakeConsole
from tests.support.served import served

ASK = {
    "bash": """
        source <(spanfuse completion bash)
        COMP_LINE="$LINE" COMP_POINT=${#LINE} COMP_WORDBREAKS=$' \\t\\n"><=;|&(:'
        _spanfuse_completion spanfuse
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "fish": 'spanfuse completion fish | source; complete --do-complete "$LINE"',
    "zsh": """
        compdef() { : }
        compadd() { print -l -- $completions }
        _describe() { print -l -- ${completions_with_descriptions%%:*} }
        source <(spanfuse completion zsh)
        words=(${(z)LINE}); [[ $LINE == *' ' ]] && words+=(''); CURRENT=${#words}
        _spanfuse_completion
    """,
}
"""Shell → what completes `$LINE` in it and prints the answers."""
SHELLS = [pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"no {name}")) for name in ASK]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(FakeConsole(), SETTINGS) as base:
        yield base


@pytest.fixture
def answers(tmp_path: Path, url: str) -> object:
    """What a shell completes a line to."""
    script = tmp_path / "spanfuse"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m spanfuse_processor "$@"\n')
    script.chmod(0o755)

    def complete(shell: str, line: str, **env: str) -> list[str]:
        ran = subprocess.run(
            [shell, "-c", ASK[shell]],
            env={
                **os.environ,
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "LINE": line,
                "SPANFUSE_API_URL": url,
                "SPANFUSE_API_TOKEN": READ,
                "HOME": str(tmp_path),
                **env,
            },
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return [line.partition("\t")[0] for line in ran.stdout.splitlines() if line]

    return complete


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "among"),
    [
        ("spanfuse sess", {"sessions"}),
        ("spanfuse budget e", {"extend"}),
        ("spanfuse status --form", {"--format"}),
        ("spanfuse status --format j", {"json"}),
        ("spanfuse insights ", {"research", "checkout", "coder"}),
        ("spanfuse sessions --agent tr", {"triage", "translator"}),
    ],
)
def test_commands_options_and_agents_are_completed(answers: object, shell: str, line: str, among: set[str]) -> None:
    assert among <= set(answers(shell, line))  # type: ignore[operator]


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_keys_are_completed_though_bash_breaks_words_at_their_colon(answers: object) -> None:
    found = answers("bash", "spanfuse reset session:run-0001")  # type: ignore[operator]
    assert found == ["run-00011"]
    assert "session:run-00000" in answers("bash", "spanfuse explain ")  # type: ignore[operator]


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_nothing_but_the_time_is_lost_where_there_is_no_api(answers: object, closed_port: int) -> None:
    for wrong in (f"http://127.0.0.1:{closed_port}", "nonsense", "http://[::1"):
        assert answers("bash", "spanfuse insights ", SPANFUSE_API_URL=wrong) == []  # type: ignore[operator]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_can_be_had_anywhere(spanfuse: Spanfuse, shell: str) -> None:
    ran = spanfuse("completion", shell)
    assert ran.exit_code == 0
    assert "_SPANFUSE_COMPLETE=" in ran.stdout or "_SPANFUSE_COMPLETE" in ran.stdout
    assert spanfuse("completion", "csh").exit_code == 2
