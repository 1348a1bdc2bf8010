"""`spanfuse policy show`."""

from __future__ import annotations

from click.testing import CliRunner

from spanfuse_processor.cli import cli
from spanfuse_schemas import Policy, PolicyNotice, ToolRule
from tests.support.fake_api import FakeApi

NOTICE = PolicyNotice(
    key="policy:*",
    epoch=1_750_000_000_000,
    issued_at_ns=1_750_000_000_000_000_000,
    policy=Policy(
        mode="enforce",
        tools=(
            ToolRule.model_validate(
                {
                    "tool": "bash",
                    "action": "deny",
                    "arguments": {"command": {"starts_with": "rm"}},
                    "reason": "Files are kept.",
                }
            ),
            ToolRule(tool="search", action="allow", agent="research*", max_calls=20),
        ),
        tools_default="ask",
    ),
)


def shown(*arguments: str) -> str:
    """What the command prints."""
    answers = {("GET", "/v1/policy"): (200, NOTICE.to_json()), ("GET", "/v1/policy/overlay"): (200, {"overlay": None})}
    with FakeApi(answers) as api:
        return CliRunner().invoke(cli, ["policy", "show", "--api", api.url, *arguments], catch_exceptions=False).stdout


def test_rules_on_tools_are_shown_in_their_order() -> None:
    lines = shown().splitlines()
    assert lines[0] == "policy 1750000000000  mode enforce"
    assert lines[1].startswith("  since  2025-06-15 15:06Z, ")
    assert lines[2:] == [
        "",
        "Tools, the first that fits",
        "  deny bash where command starts with 'rm': Files are kept.",
        "  allow search of agent research* 20 times a session",
        "  ask every other tool",
    ]


def test_json_has_all_of_it() -> None:
    assert PolicyNotice.from_json(shown("--format", "json")) == NOTICE
