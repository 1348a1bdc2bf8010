"""LiteLLM, guarded: the library, and its proxy.

In a program: all calls that LiteLLM makes from then on, whoever makes them, ask first.

>>> from spanfuse.integrations.litellm import wrap_litellm
>>> wrap_litellm()

In the configuration of the proxy:

    litellm_settings:
      callbacks: spanfuse.integrations.litellm.proxy_handler
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spanfuse.integrations.litellm.library import wrap_litellm

if TYPE_CHECKING:
    from spanfuse.integrations.litellm.proxy import GuardHandler, proxy_handler

__all__ = ["GuardHandler", "proxy_handler", "wrap_litellm"]


def __getattr__(name: str) -> Any:
    if name in ("GuardHandler", "proxy_handler"):  # needed in the proxy only, which has more packages
        from spanfuse.integrations.litellm import proxy

        return getattr(proxy, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
