"""`completion`: what a shell needs to complete commands, options, and names that the API knows."""

from __future__ import annotations

from typing import Any, Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete, add_completion_class

from spanfuse_processor.cli.options import DEFAULT_API_URL

VARIABLE: Final = "_SPANFUSE_COMPLETE"
"""Set by the shell while it asks."""
PATIENCE_S: Final = 2.0
"""How long the API may take while somebody waits at the prompt, seconds."""


class KeyBashComplete(BashComplete):
    """For bash, which takes the `:` in a key for the end of a word."""

    source_template = r"""
%(complete_func)s() {
    local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}" before="" words response completion kind value
    IFS=' ' read -ra words <<< "$line"
    [[ $line == *' ' ]] && words+=("")
    local current="${words[${#words[@]} - 1]}"
    [[ $current == *:* && $COMP_WORDBREAKS == *:* ]] && before="${current%%"${current##*:}"}"
    response=$(env COMP_WORDS="$line" COMP_CWORD=$((${#words[@]} - 1)) %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    for completion in $response; do
        IFS=',' read -r kind value <<< "$completion"
        case $kind in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain) COMPREPLY+=("${value#"$before"}") ;;
        esac
    done
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


add_completion_class(KeyBashComplete)

COMPLETIONS: Final[dict[str, type[ShellComplete]]] = {"bash": KeyBashComplete, "zsh": ZshComplete, "fish": FishComplete}
"""Shell → what completes in it."""


@click.command()
@click.argument("shell", type=click.Choice(list(COMPLETIONS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands in SHELL: also agents, and keys of breakers that stand, as the API knows them.

    \b
    Examples:
      echo 'eval "$(spanfuse completion bash)"' >> ~/.bashrc
      echo 'eval "$(spanfuse completion zsh)"' >> ~/.zshrc
      spanfuse completion fish > ~/.config/fish/completions/spanfuse.fish
    """
    made = COMPLETIONS[shell](ctx.find_root().command, {}, "spanfuse", VARIABLE)
    click.echo(made.source())


def known(ctx: click.Context, path: str, field: str, **query: Any) -> list[dict[str, Any]]:
    """Rows of the API, for completion: none rather than an error, or a wait."""
    import os

    import httpx

    url = ctx.params.get("api_url") or os.environ.get("SPANFUSE_API_URL") or DEFAULT_API_URL
    token = ctx.params.get("token") or os.environ.get("SPANFUSE_API_TOKEN")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            found = client.get(f"{url.rstrip('/')}{path}", params=query, headers=headers).json()[field]
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, ValueError, KeyError, TypeError):
        return []
    return found if isinstance(found, list) else []
