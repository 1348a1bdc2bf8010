"""What a call shows of itself to a block that is limited to a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spanfuse_schemas import Fingerprint


class Shown:
    """The fingerprints of a call's new input and of the action that this answers, and whether somebody speaks in it, computed
    when first asked for.

    Args:
        messages: the conversation, a list of message dicts; or a text.
        prompt: a text without a conversation, used where there are no messages.
    """

    __slots__ = ("_found", "_messages", "_prompt")

    def __init__(self, messages: Any, prompt: Any) -> None:
        self._messages, self._prompt = messages, prompt
        self._found: tuple[Fingerprint | None, Fingerprint | None, bool] | None = None

    def __call__(self) -> tuple[Fingerprint | None, Fingerprint | None, bool]:
        """All three, None for a fingerprint of what is not shown or cannot be read."""
        if self._found is None:
            try:
                self._found = self._read()
            except Exception:
                self._found = None, None, False
        return self._found

    def _read(self) -> tuple[Fingerprint | None, Fingerprint | None, bool]:
        from spanfuse.reading.messages import new_input, read_messages

        # Not from an iterator: reading it would take the messages away from the call.
        if isinstance(self._messages, Sequence) and not isinstance(self._messages, (str, bytes)):
            read = read_messages(self._messages)
            return read.input, read.answers, read.spoken
        text = self._messages if isinstance(self._messages, str) else self._prompt
        if not isinstance(text, str):
            return new_input(prompt=text), None, False
        read = read_messages([{"role": "user", "content": text}])  # it may hold a whole scratchpad
        return read.input, read.answers, read.spoken
