"""The log of the process."""

from __future__ import annotations

import logging
from typing import Final

from spanfuse_processor.exporters.alerts.model import Notice
from spanfuse_processor.exporters.alerts.text import body

log = logging.getLogger("spanfuse.alerts")

_LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "critical": logging.ERROR}


class LogSender:
    """See `sender.Sender`."""

    kind = "log"

    def __init__(self, name: str) -> None:
        self._name = name

    async def send(self, notice: Notice) -> None:
        """Write a line."""
        said = body(notice)
        facts = ", ".join(f"{name.lower()} {value}" for name, value in said.facts)
        release = f"; release: {said.command}" if said.command else ""
        level = logging.INFO if notice.what == "resolved" else _LEVELS[notice.alert.severity]
        log.log(level, "%s", f"{said.title}: {said.message} ({facts}){release}")
