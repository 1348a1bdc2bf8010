"""Charges: what the calls of a batch cost each scope that shares a budget."""

from __future__ import annotations

from spanfuse_schemas import Call, Charge


class Ledger:
    """Adds up the model calls of one batch by scope."""

    def __init__(self) -> None:
        self._sums: dict[str, list[int]] = {}

    def add(self, call: Call) -> None:
        """Add a counted model call to the scopes it belongs to."""
        cost, tokens = call.cost_nano_usd, call.tokens
        for kind, name in (("agent", call.agent), ("user", call.user), ("team", call.team), ("global", "*")):
            if name:
                total = self._sums.setdefault(f"{kind}:{name}", [0, 0, 0, 0, 0])
                total[0] += cost
                total[1] += 1
                total[2] += tokens.input
                total[3] += tokens.output
                total[4] = max(total[4], call.end_ns)

    def charges(self, source: str, offset: int) -> list[Charge]:
        """One charge per scope, identified by where the batch came from."""
        return [
            Charge(scope=scope, source=source, offset=offset, cost_nano_usd=cost, calls=calls, input_tokens=input_,
                   output_tokens=output, at_ns=at)
            for scope, (cost, calls, input_, output, at) in self._sums.items()
        ]  # fmt: skip
