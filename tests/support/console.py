"""A host in memory for what is built on it: the API, the command line, the page. The same at every run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from spanfuse_processor.api.console import DryRun, Explanation, OverlayNotice, SessionDetail
from spanfuse_processor.config import Config
from spanfuse_processor.config.overlay import Overlay
from spanfuse_processor.core.budgets import Ordered
from spanfuse_processor.core.explain import RuleView
from spanfuse_processor.errors import QueryError, UnavailableError
from spanfuse_processor.exporters.events import EventLog
from spanfuse_processor.exporters.hub import Listener, frame
from spanfuse_processor.exporters.readmodel.model import (
    DetectionPage,
    DetectionQuery,
    MinuteRow,
    SeriesKind,
    SessionPage,
    SessionQuery,
    SessionRow,
    Sort,
    StepRow,
)
from spanfuse_schemas import POLICY_KEY, BudgetOrder, Decision, Detection, Evidence, PolicyNotice
from spanfuse_schemas.budget import Audited

NOW_NS = 1_767_262_320_000_000_000
"""2026-01-01 10:12 UTC: the time of this host."""
MINUTE_NS = 60_000_000_000
AGENTS = ("research", "checkout", "triage", "coder", "translator")
MODELS = ("gpt-4o", "claude-sonnet-4-5", "gpt-4o-mini")
RULES = ("repeat.no_progress", "cycle", "velocity", "near", "budget.session")
TOOLS = ("search", "fetch", "write_file")
_OF_SORT: dict[Sort, str] = dict(
    zip(get_args(Sort), ("last_ns", "cost_nano_usd", "calls", "tokens", "detections"), strict=True)
)


class FakeConsole:
    """See `api.console.Console`.

    Args:
        sessions: how many there are.
        name: given to the sessions, agents, users, teams, models and rules in place of their names, such as a script that a
            page has to escape; none: plain ones.
    """

    def __init__(self, sessions: int = 300, *, name: str | None = None) -> None:
        self.now_ns = NOW_NS
        self.ready = self.live = True
        self.away = False
        """Whether every question is answered by `UnavailableError`."""
        self.resets: list[tuple[str, str]] = []
        self.orders: list[BudgetOrder] = []
        self.log = EventLog()
        """Publish here what is to be heard."""
        self.policy = PolicyNotice(
            key=POLICY_KEY, epoch=1, issued_at_ns=NOW_NS - 60 * MINUTE_NS, policy=Config().policy()
        )
        self._name = name
        self._overlay: OverlayNotice | None = None
        self.rows = {row.session: row for row in (self._row(n) for n in range(sessions))}
        self.standing = {f"session:{row.session}": _standing(row) for row in self.rows.values() if row.rule}
        self.found = [self._detection(n) for n in range(3 * sessions)]

    def _named(self, plain: str) -> str:
        return plain if self._name is None else f"{self._name}{plain}"

    def _row(self, n: int) -> SessionRow:
        held = n % 11 == 0
        return SessionRow(
            session=self._named(f"run-{n:05d}"),
            agent=self._named(AGENTS[n % len(AGENTS)]),
            user=self._named(f"u-{n % 17}"),
            team=self._named(f"team-{n % 3}"),
            model=self._named(MODELS[n % len(MODELS)]),
            calls=5 + n % 60,
            tools=n % 23,
            tokens=1_000 * (1 + n % 70),
            cost_nano_usd=10_000_000 * (1 + n * 7 % 400),
            first_ns=NOW_NS - (n + 9) * MINUTE_NS,
            last_ns=NOW_NS - n * MINUTE_NS,
            state=("half_open" if n % 33 == 0 else "open") if held else "closed",
            action="block" if held else "allow",
            mode="enforce" if held and n % 2 else "observe",
            rule=self._named(RULES[n % len(RULES)]) if held else "",
            message=self._named("The same search brought the same result 3 times.") if held else "",
            expires_at_ns=NOW_NS + (5 - n % 4) * MINUTE_NS if held else None,
            epoch=n % 5,
            would_block=n % 4 if n % 7 == 0 else 0,
            detections=n % 6,
        )

    def _detection(self, n: int) -> Detection:
        row = list(self.rows.values())[n % len(self.rows)]
        rule = RULES[n % len(RULES)]
        return Detection(
            id=f"{n:016x}",
            rule=self._named(rule),
            action="block" if n % 3 == 0 else "warn",
            mode="shadow" if n % 5 == 0 else "block",
            session=row.session,
            agent=row.agent,
            user=row.user,
            team=row.team,
            model=row.model,
            call=n % 40,
            at_ns=NOW_NS - n * 20_000_000_000,
            message=self._named(f"The rule {rule} fired; look at the last tool."),
            evidence=Evidence(
                count=3, threshold=3, value=3, unit="repeats", trace_id=f"{n:032x}", last_span_id=f"{n:016x}"
            ),
        )

    def _answers(self) -> None:
        if self.away:
            raise UnavailableError("the store of this test is away")

    async def status(self) -> dict[str, Any]:
        self._answers()
        return {
            "version": "0.1.0",
            "host": "embedded",
            "mode": self.policy.policy.mode,
            "policy_epoch": self.policy.epoch,
            "uptime_s": 3600.0,
            "ports": {"otlp_http": 4318, "otlp_grpc": 4317, "api": 8787},
            "storage": "spanfuse.db",
            "sessions": len(self.rows),
            "live_sessions": min(100, len(self.rows)),
            "open_breakers": sum(d.state == "open" for d in self.standing.values()),
            "half_open_breakers": sum(d.state == "half_open" for d in self.standing.values()),
            "streams": 2,
            "counts": {"calls": sum(row.calls for row in self.rows.values()), "decisions": 9, "detections": {"cycle": 3}},
            "guards": {"guarded": 96, "seen": 90, "share": 0.9375, "reporting": 4, "refused": []},
            "unknown_models": {},
        }  # fmt: skip

    async def sessions(self, query: SessionQuery) -> SessionPage:
        self._answers()
        found = sorted((row for row in self.rows.values() if _fits(row, query)), key=lambda row: row.session)
        found.sort(key=lambda row: getattr(row, _OF_SORT[query.sort]), reverse=True)
        start = _start(query.cursor)
        end = start + query.limit
        return SessionPage(sessions=tuple(found[start:end]), next=str(end) if end < len(found) else "")

    async def session(self, session: str) -> SessionDetail | None:
        self._answers()
        row = self.rows.get(session)
        if row is None:
            return None
        accounts = (_account(f"session:{session}", "session/total", row.cost_nano_usd, 5_000_000_000),)
        return SessionDetail(**row.model_dump(), decision=self.standing.get(f"session:{session}"), budgets=accounts)

    async def timeline(self, session: str, limit: int) -> list[StepRow]:
        self._answers()
        row = self.rows.get(session)
        return [] if row is None else [self._step(row, n) for n in range(min(row.calls + row.tools, 200))][-limit:]

    def _step(self, row: SessionRow, n: int) -> StepRow:
        tool, last = n % 3 == 1, n == row.calls - 1
        return StepRow(
            at_ns=row.first_ns + n * 5_000_000_000,
            lasted_ns=1_200_000_000,
            span_id=f"{n + 1:016x}",
            trace_id=f"{abs(hash(row.calls)) + 1:032x}",
            kind="tool" if tool else "llm",
            agent=row.agent,
            model="" if tool else row.model,
            tools=(self._named(TOOLS[n % 2]),) if tool else (),
            tokens=0 if tool else 900 + n,
            cost_nano_usd=0 if tool else 4_000_000,
            error=self._named("Timeout") if n % 13 == 12 else "",
            loop=1 + n % 3 if n % 10 > 3 else 0,
            rules=(row.rule,) if row.rule and last else (),
            decision="block" if row.rule and last else "",
        )

    async def detections(self, query: DetectionQuery) -> DetectionPage:
        self._answers()
        exact = {name: getattr(query, name) for name in ("rule", "session", "agent", "user", "action")}
        found = [
            d
            for d in self.found
            if d.at_ns >= query.since_ns and all(not v or getattr(d, k) == v for k, v in exact.items())
        ]
        start = _start(query.cursor)
        end = start + query.limit
        return DetectionPage(detections=tuple(found[start:end]), next=str(end) if end < len(found) else "")

    def decisions(self) -> list[Decision]:
        self._answers()
        return list(self.standing.values())

    async def history(self, key: str, limit: int) -> list[Decision]:
        self._answers()
        return [self.standing[key]][:limit] if key in self.standing else []

    async def agents(self) -> list[dict[str, Any]]:
        self._answers()
        usual = {
            "sessions": 40, "calls_p50": 6, "calls_p95": 13, "cost_nano_usd_p50": 75_000_000, "cost_nano_usd_p95": 160_000_000,
            "recommended_max_steps": 26, "recommended_budget_usd": 0.32,
        }  # fmt: skip
        more = {"trips": 3, "usual": usual, "coverage": {"guarded": 96, "seen": 96, "share": 1.0}}
        return [{"agent": self._named(name)} | self._sums(name, "agent") | more for name in AGENTS]

    async def models(self) -> list[dict[str, Any]]:
        self._answers()
        return [{"model": self._named(name)} | self._sums(name, "model") for name in MODELS]

    def _sums(self, name: str, field: str) -> dict[str, Any]:
        rows = [row for row in self.rows.values() if getattr(row, field) == self._named(name)]
        calls, cost = sum(row.calls for row in rows), sum(row.cost_nano_usd for row in rows)
        loops = sum(bool(row.rule) for row in rows)
        return {
            "calls": calls,
            "sessions": len(rows),
            "loops": loops,
            "loops_per_1000_calls": round(1000 * loops / (calls or 1), 3),
            "failures": calls // 50,
            "cost_nano_usd": cost,
            "cost_nano_usd_per_call": cost // (calls or 1),
            "input_tokens": sum(row.tokens for row in rows),
            "output_tokens": sum(row.tokens for row in rows) // 10,
            "last_ns": max((row.last_ns for row in rows), default=0),
        }

    async def series(self, kind: SeriesKind, name: str, minutes: int) -> list[MinuteRow]:
        self._answers()
        now = NOW_NS // MINUTE_NS
        return [
            MinuteRow(
                minute=m, calls=m % 17 * 3, cost_nano_usd=m % 13 * 10_000_000, tokens=m % 11 * 900, blocks=m % 19 == 0
            )
            for m in range(now - minutes + 1, now + 1)
        ]

    async def explain(self, key: str) -> Explanation:
        self._answers()
        kind, _, name = key.partition(":")
        if not name:
            raise QueryError(f"{key} is no key; write session:ID, agent:NAME, user:ID, team:NAME or global:*")
        stands = self.standing.get(key)
        rules = [
            RuleView(
                rule=rule,
                mode="block",
                counted=3 if stands is not None and stands.rule == self._named(rule) else 1,
                threshold=3,
                unit="repeats",
                fired=stands is not None and stands.rule == self._named(rule),
                stands=stands is not None and stands.rule == self._named(rule),
                why=self._named("1 of 3 repeats: the last step was another one."),
            )
            for rule in RULES
        ]
        rules.sort(key=lambda view: not view.stands)
        known = name in self.rows or kind != "session"
        return Explanation(key=key, known=known, decision=stands, rules=tuple(rules), policy_epoch=self.policy.epoch)

    async def budgets(self, scope: str = "") -> list[dict[str, Any]]:
        self._answers()
        rows = [_account(self._named(f"user:u-{n}"), "user/daily", n * 400_000_000, 5_000_000_000) for n in range(17)]
        rows.append(_account("global:*", "global/daily", 40_000_000_000, 100_000_000_000))
        return [row for row in rows if scope in ("", row["scope"])]

    async def order(self, order: BudgetOrder) -> Ordered:
        self._answers()
        accounts = [row for row in await self.budgets(order.scope) if row["budget"] == order.budget]
        if not accounts:
            return Ordered(order, False, f"no budget {order.budget} holds for {order.scope}")
        self.orders.append(order)
        done = Ordered(order, True, account=accounts[0])
        self.log.publish("audit", done.audited().to_json())
        return done

    async def audit(self, limit: int) -> list[bytes]:
        self._answers()
        return [Audited(order=order, done=True).to_json() for order in reversed(self.orders)][:limit]

    async def rebuild(self) -> int:
        self._answers()
        return 18

    async def reset(self, key: str, actor: str) -> Decision | None:
        self._answers()
        self.resets.append((key, actor))
        stood = self.standing.pop(key, None)
        kind, _, name = key.partition(":")
        if stood is None and not (kind == "session" and name in self.rows):
            return None
        closed = Decision(
            key=key, state="closed", issued_at_ns=self.now_ns, epoch=(stood.epoch if stood else 0) + 1, reset=True
        )
        if name in self.rows:
            still = {"state": "closed", "action": "allow", "rule": "", "message": "", "expires_at_ns": None}
            self.rows[name] = self.rows[name].model_copy(update=still)
        self.log.publish("decision", closed.to_json())
        return closed

    async def overlay(self) -> OverlayNotice | None:
        self._answers()
        return self._overlay

    async def put_policy(self, overlay: Overlay, actor: str, reason: str) -> PolicyNotice:
        self._answers()
        self._overlay = (
            OverlayNotice(overlay=overlay, actor=actor, reason=reason, at_ns=self.now_ns) if overlay else None
        )
        policy = overlay.over(Config()).policy()
        self.policy = PolicyNotice(key=POLICY_KEY, epoch=self.policy.epoch + 1, issued_at_ns=self.now_ns, policy=policy)
        self.log.publish("policy", self.policy.to_json())
        return self.policy

    async def dry_run(self, overlay: Overlay, since_ns: int) -> DryRun:
        self._answers()
        row = next(iter(self.rows.values()))
        stop = {
            "session": row.session,
            "calls": row.calls,
            "blocked_at": 3,
            "rule": "cycle",
            "saved_calls": 2,
            "saved_nano_usd": 20_000_000,
        }
        sums = {
            "sessions": len(self.rows),
            "sessions_blocked": len(self.standing),
            "calls": 9_000,
            "saved_calls": 40,
            "saved_nano_usd": 10**9,
        }
        changed = bool(overlay)
        return DryRun(
            calls=9_000,
            from_ns=since_ns or NOW_NS - 600 * MINUTE_NS,
            to_ns=NOW_NS,
            totals={"old": sums, "new": sums | {"sessions_blocked": len(self.standing) + changed}},
            by_rule={"cycle": {"old": {"detections": 3}, "new": {"detections": 4}}},
            stopped_by_new_only=(stop,) if changed else (),
        )  # fmt: skip

    def follow(self) -> tuple[Iterable[bytes], Listener]:
        present = [frame("policy", self.policy.to_json())]
        present += [frame("decision", d.to_json()) for d in self.standing.values()]
        return [*present, frame("ready", b"{}")], self.log.hub.listen()

    def events(self, last_id: str = "") -> tuple[Iterable[bytes], Listener]:
        return self.log.follow(last_id)


def _standing(row: SessionRow) -> Decision:
    return Decision(
        key=f"session:{row.session}",
        state=row.state,
        action=row.action,
        mode=row.mode,
        rule=row.rule,
        message=row.message,
        evidence=Evidence(count=3, threshold=3, value=3, unit="repeats", cost_nano_usd=30_000_000),
        issued_at_ns=row.last_ns,
        expires_at_ns=row.expires_at_ns,
        epoch=row.epoch,
    )


def _fits(row: SessionRow, query: SessionQuery) -> bool:
    exact = all(getattr(query, k) in ("", getattr(row, k)) for k in ("state", "agent", "user", "team"))
    text = "\n".join((row.session, row.agent, row.user, row.team, row.model)).lower()
    return exact and row.last_ns >= query.since_ns and query.query.lower() in text


def _start(cursor: str) -> int:
    if cursor and not cursor.isdecimal():
        raise QueryError("the cursor is none of this list")
    return int(cursor or 0)


def _account(scope: str, budget: str, spent: int, limit: int) -> dict[str, Any]:
    day_ns = 24 * 60 * MINUTE_NS
    start_ns = NOW_NS // day_ns * day_ns
    return {
        "account": f"{scope}|{budget}|{start_ns // 10**9}",
        "scope": scope,
        "budget": budget,
        "unit": "usd",
        "spent": spent,
        "limit": limit,
        "remaining": max(0, limit - spent),
        "used": spent / limit,
        "status": "exhausted" if spent >= limit else "warning" if spent * 2 >= limit else "ok",
        "period_start_ns": start_ns,
        "period_end_ns": start_ns + day_ns,
        "projected_ns": NOW_NS + 180 * MINUTE_NS if spent < limit else None,
    }
