"""What a request refers to instead of repeating it: OpenAI's Responses keep the conversation with the provider, and a request
brings only what is new. Alone it would look as if the agent started over each time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from spanfuse.bounded import Bounded
from spanfuse.reading.token_usage import field_of

if TYPE_CHECKING:
    from spanfuse.reading.answers import Answer

MAX_ANSWERS: Final = 2_048
"""Answers remembered, some 4 KB each; beyond it the one that was used longest ago is forgotten."""


class Earlier:
    """Remembers answers by the names under which requests refer to them. Thread-safe."""

    def __init__(self) -> None:
        self._answers: Bounded[str, list[Any]] = Bounded(MAX_ANSWERS)
        self._lock = threading.Lock()

    def before(self, body: Mapping[str, Any]) -> list[Any]:
        """What stands before the input of a request: the items of the last answer. Of an answer that is not known a mere
        reference, which nothing repeats; of a request that refers to none nothing.

        Args:
            body: of a request to Responses.
        """
        names = [
            name for name in (body.get("previous_response_id"), _conversation(body)) if isinstance(name, str) and name
        ]
        with self._lock:
            known = next((found for name in names if (found := self._answers.get(name)) is not None), None)
        return known if known is not None else [{"type": "item_reference", "id": name} for name in names[:1]]

    def keep(self, body: Mapping[str, Any], answer: Answer | None) -> None:
        """Remember what a request was answered."""
        if answer is None or not answer.reply:
            return
        items = [item for item in answer.reply if field_of(item, "type") != "reasoning"]
        with self._lock:
            for name in (answer.response_id, _conversation(body)):
                if isinstance(name, str) and name:
                    self._answers[name] = items


def _conversation(body: Mapping[str, Any]) -> Any:
    """Id of the conversation to which a request belongs."""
    found = body.get("conversation")
    return found.get("id") if isinstance(found, Mapping) else found
