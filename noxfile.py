"""The tests of each framework, in environments of their own, since what they need does not go together.

nox                                 all: `make test-integrations`
nox -t newest                       the newest version of each
nox -s langchain                    one framework, in its newest version and in an older one
nox -s 'mcp(newest)' -- -k denied   one test
"""

from __future__ import annotations

from typing import NamedTuple

import nox

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"

TESTS = ("pytest>=8.4", "pytest-timeout>=2.3", "uvicorn>=0.29", "httptools>=0.6")


class Versions(NamedTuple):
    """What is installed for a framework, beside what all tests need."""

    newest: tuple[str, ...]
    """With the extra that users install, in the versions that are found."""
    older: tuple[str, ...]
    """The oldest that is supported, with what was there beside it: as of about a year ago."""


FRAMEWORKS = {
    "anthropic": Versions((".[anthropic,processor]",), (".[anthropic]", "anthropic==0.50.0")),
    "crewai": Versions((".[crewai]",), (".[crewai]", "crewai==1.6.1")),
    "langchain": Versions(
        (".[langchain,openai]", "langchain-openai", "langchain-classic"),
        (
            ".[langchain,openai]", "langchain==1.1.2", "langchain-core==1.1.1", "langchain-openai==1.1.0",
            "langchain-classic", "langgraph==1.0.4", "langgraph-prebuilt==1.0.5", "openai<2.10",
        ),
    ),
    "litellm": Versions((".[litellm]", "litellm[proxy]"), (".[litellm]", "litellm[proxy]==1.80.0")),
    "mcp": Versions((".[mcp]",), (".[mcp]", "mcp==1.23.1")),
    "openai": Versions((".[openai,processor]",), (".[openai]", "openai==1.66.0")),
    "openai_agents": Versions(
        (".[openai-agents,openai]",), (".[openai-agents,openai]", "openai-agents==0.6.2", "openai<2.10")
    ),
    # The older one reads what a call took with a version of genai-prices that the local host cannot work with.
    "pydantic_ai": Versions(
        (".[pydantic-ai]", "pydantic-ai-slim[openai]"),
        (".", "pydantic-ai-slim[openai]==1.26.0", "openai<2.10", "genai-prices<0.0.50", "opentelemetry-api<1.39"),
    ),
}  # fmt: skip


def _session(folder: str, versions: Versions) -> None:
    @nox.session(name=folder)
    @nox.parametrize("packages", [nox.param(found, id=age, tags=[age]) for age, found in versions._asdict().items()])
    def tests(session: nox.Session, packages: tuple[str, ...]) -> None:
        session.install("--quiet", *TESTS, "--editable", *packages)
        # What the tests of the repository share needs more than this.
        session.run(
            "python", "-m", "pytest", "--confcutdir=tests/frameworks", f"tests/frameworks/{folder}", *session.posargs
        )


for folder, versions in FRAMEWORKS.items():
    _session(folder, versions)
