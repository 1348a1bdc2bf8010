"""Charges: what the calls of a batch cost each scope that shares a budget."""

from __future__ import annotations

from spanfuse_schemas import Call, Charge


class Ledger:
    """Adds up the model calls of one batch: by who made them first, by scope at the end, since many share all three names."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str], list[int]] = {}

    def add(self, call: Call) -> None:
        """Add a counted model call."""
        who = (call.agent, call.user, call.team)
        total = self._sums.get(who)
        if total is None:
            total = self._sums[who] = [0, 0, 0, 0, 0]
        tokens = call.tokens
        total[0] += call.cost_nano_usd
        total[1] += 1
        total[2] += tokens.input
        total[3] += tokens.output
        total[4] = max(total[4], call.end_ns)

    def charges(self, source: str, offset: int) -> list[Charge]:
        """One charge per scope, identified by where the batch came from."""
        scopes: dict[str, list[int]] = {}
        for (agent, user, team), sums in self._sums.items():
            for kind, name in (("agent", agent), ("user", user), ("team", team), ("global", "*")):
                if name:
                    total = scopes.setdefault(f"{kind}:{name}", [0, 0, 0, 0, 0])
                    total[:4] = [a + b for a, b in zip(total[:4], sums[:4], strict=True)]
                    total[4] = max(total[4], sums[4])
        return [
            Charge(scope=scope, source=source, offset=offset, cost_nano_usd=cost, calls=calls, input_tokens=input_,
                   output_tokens=output, at_ns=at)
            for scope, (cost, calls, input_, output, at) in scopes.items()
        ]  # fmt: skip
