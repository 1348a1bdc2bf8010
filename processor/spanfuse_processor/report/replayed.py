"""The report of a replay: what it says, in the words of people who pay for agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from spanfuse_processor.hosts.replay.report import COVERAGE, Report, SessionReport
from spanfuse_processor.hosts.replay.totals import BY_RULE, by_rule, totals
from spanfuse_processor.hosts.tuning.distribution import distribution
from spanfuse_processor.page.formats import count, lasted, money
from spanfuse_processor.report.parts import Bar, Compared, Group, Money, Page, Table, Tile
from spanfuse_processor.report.plots import Plot, columns
from spanfuse_processor.report.timelines import Timeline
from spanfuse_processor.report.words import of, percent, plural, share, spread

MAX_DRAWN: Final = 6
"""Sessions drawn of each kind."""
_MAX_BARS: Final = 8
"""Agents whose money is drawn."""
_GUESS: Final = (
    "Whether each stop would have been right a replay cannot know: read the sessions drawn below, those first that would "
    "have saved most."
)


def chosen(report: Report, old: Report | None) -> dict[str, list[str]]:
    """The sessions that are drawn, by kind."""
    stopped = [one for one in report.sessions.values() if one.blocked_at is not None]
    if old is None:
        return {"stopped": _dearest(stopped)}
    before = {name for name, one in old.sessions.items() if one.blocked_at is not None}
    freed = [old.sessions[name] for name in before if report.sessions[name].blocked_at is None]
    return {
        "new": _dearest(one for one in stopped if one.session not in before),
        "freed": _dearest(freed),
        "stopped": _dearest(one for one in stopped if one.session in before),
    }


def _dearest(sessions: Iterable[SessionReport]) -> list[str]:
    order = sorted(sessions, key=lambda one: (-one.saved_nano_usd, -one.saved_calls, one.session))
    return [one.session for one in order[:MAX_DRAWN]]


_TITLES: Final = {
    "new": ("Stopped now, and not before", "The dashed line is where the session would be stopped."),
    "freed": ("Stopped before, and not now", ""),
    "stopped": ("Sessions that would be stopped", "Those that save most, with their steps in order."),
}


def replayed(report: Report, old: Report | None, lines: Mapping[str, Timeline]) -> Page:
    """The page of a replay.

    Args:
        old: what another policy does, which it is compared with.
        lines: the sessions drawn, see `chosen`.
    """
    now = totals(report.sessions.values())
    was = totals(old.sessions.values()) if old is not None else None
    page = Page(
        title="What spanfuse would have stopped",
        lead=[_lead(now, was), _GUESS],
        made_of=made_of(report),
        tiles=_tiles(now, was),
        plots=[sizes(report, {})],
        money=spent(report),
        groups=groups(chosen(report, old), _TITLES, lines),
        tables=[rules_table(report, old), agents_table(report, old)],
        details=[sizes_table(report, {}), coverage_table(report)],
    )
    if was is not None:
        page.legend = ("before", "now")
        page.compared = _compared(was, now)
    if report.coverage["calls"] and report.coverage["with_content"] < report.coverage["calls"]:
        blind = report.coverage["calls"] - report.coverage["with_content"]
        page.cautions.append(
            f"{percent(blind, report.coverage['calls'])} of the calls came without content or fingerprints: no rule on "
            "repetition can see those."
        )
    return page


def made_of(report: Report) -> str:
    """What was replayed, in a line."""
    agents = len({one.agent for one in report.sessions.values() if one.agent})
    of_agents = f" of {plural(agents, 'agent')}" if agents else ""
    return f"{plural(report.coverage['calls'], 'call')} in {plural(len(report.sessions), 'session')}{of_agents}"


def _lead(now: dict[str, Any], was: dict[str, Any] | None) -> str:
    stopped, saved = now["sessions_blocked"], plural(now["saved_calls"], "call")
    begin = (
        f"In this recording agents made {plural(now['calls'], 'model call')} in {plural(now['sessions'], 'session')} and spent "
        f"{money(now['cost_nano_usd'])}. With these settings spanfuse would have stopped {plural(stopped, 'session')} "
        f"({percent(stopped, now['sessions'])}), and saved up to {saved} and {money(now['saved_nano_usd'])}. The other "
        f"{count(now['sessions'] - stopped)} would have gone on untouched."
    )
    if was is None:
        return begin
    more = now["sessions_blocked"] - was["sessions_blocked"]
    said = f"{abs(more):,} more" if more > 0 else f"{abs(more):,} fewer" if more < 0 else "as many"
    than = "than" if more else "as"
    return (
        f"{begin} That is {said} {than} with the settings that it is compared with, which would have saved "
        f"{plural(was['saved_calls'], 'call')} and {money(was['saved_nano_usd'])}."
    )


def _tiles(now: dict[str, Any], was: dict[str, Any] | None) -> list[Tile]:
    def before(key: str, shown: Any = count) -> str:
        return f"compared with {shown(was[key])}" if was is not None else ""

    seconds = now["time_to_detection_s_p50"]
    stopped = (
        before("sessions_blocked")
        or f"of {count(now['sessions'])}, {percent(now['sessions_blocked'], now['sessions'])}"
    )
    calls = before("saved_calls") or f"of {count(now['calls'])}, {percent(now['saved_calls'], now['calls'])}"
    saved = before("saved_nano_usd", money) or f"of {money(now['cost_nano_usd'])}"
    return [
        Tile("Sessions stopped", count(now["sessions_blocked"]), stopped),
        Tile("Calls saved", count(now["saved_calls"]), f"{calls}, at most"),
        Tile("Money saved", money(now["saved_nano_usd"]), f"{saved}, at most"),
        Tile(
            "Time to detection",
            "–" if seconds is None else lasted(round(seconds * 1e9)),
            "from the first useless step, median",
        ),
    ]


def _compared(was: dict[str, Any], now: dict[str, Any]) -> list[Compared]:
    def pair(name: str, key: str, whole: str, shown: Any) -> Compared:
        bars = (
            Bar(shown(one[key]), share(one[key], one[whole]), f"{which}: {shown(one[key])}", status)
            for which, one, status in (("Before", was, "plain"), ("Now", now, ""))
        )
        return Compared(name, tuple(bars))

    return [
        pair("Sessions stopped", "sessions_blocked", "sessions", count),
        pair("Calls saved", "saved_calls", "calls", count),
        pair("Money saved", "saved_nano_usd", "cost_nano_usd", money),
    ]


def groups(
    names: Mapping[str, list[str]], titles: Mapping[str, tuple[str, str]], lines: Mapping[str, Timeline]
) -> list[Group]:
    """The sessions drawn, by kind."""
    return [
        Group(*titles[kind], [lines[name] for name in some if name in lines]) for kind, some in names.items() if some
    ]


def sizes(report: Report, kinds: Mapping[str, str], marks: Iterable[tuple[float, str, str]] = ()) -> Plot:
    """Calls per session, drawn."""
    found = _sizes(report, kinds)
    told = [(value, f"{name} {count(value)}", "") for name, value in _middle(found).items()]
    return columns(found["bins"], [*told, *marks], "How long sessions are")


def _middle(found: dict[str, Any]) -> dict[str, float]:
    named = {"median": found["percentiles"]["50"], "95 %": found["percentiles"]["95"]}
    return {name: value for name, value in named.items() if value is not None}


def _sizes(report: Report, kinds: Mapping[str, str]) -> dict[str, Any]:
    return distribution({name: one.calls for name, one in report.sessions.items()}, kinds)


def sizes_table(report: Report, kinds: Mapping[str, str]) -> Table:
    """The same as numbers."""
    found = _sizes(report, kinds)
    labels = [kind for kind in ("good", "runaway", "either") if any(one.get(kind) for one in found["bins"])]
    rows = [[spread(one)] + [count(one.get(kind, 0)) for kind in ("sessions", *labels)] for one in found["bins"]]
    return Table(
        "How long sessions are, as a table", [">Model calls", ">Sessions", *(f">{kind}" for kind in labels)], rows
    )


def rules_table(report: Report, old: Report | None) -> Table:
    """What each rule comes to."""
    none = dict.fromkeys(BY_RULE, 0)
    now = by_rule(report.sessions.values(), report.scopes)
    was = by_rule(old.sessions.values(), old.scopes) if old is not None else {}
    heads = ["Rule", "Mode", ">Spoke of", ">Stopped", ">Calls saved", ">Money saved"]
    heads[3:3] = [">Stopped before"] if old is not None else []
    rows = []
    for rule in sorted({*now, *was}, key=lambda rule: (-now.get(rule, none)["blocked_sessions"], rule)):
        one, before = now.get(rule, none), was.get(rule, none)
        if not (one["sessions"] or before["sessions"] or one["blocked_sessions"] or before["blocked_sessions"]):
            continue  # it has only spoken of agents, traces or teams
        stopped = [count(before["blocked_sessions"])] if old is not None else []
        rows.append([
            rule, _mode(report, rule), count(one["sessions"]), *stopped, count(one["blocked_sessions"]),
            count(one["saved_calls"]), money(one["saved_nano_usd"]),
        ])  # fmt: skip
    return Table(
        "By rule", heads, rows, "A session counts for the rule that would have refused its call first.", code=0
    )


def _mode(report: Report, rule: str) -> str:
    return report.modes.get(rule) or report.modes.get(rule.partition(".")[0], "")


def agents_table(report: Report, old: Report | None) -> Table:
    """What each agent comes to, those first of which most sessions would be stopped."""
    before = _by_agent(old) if old is not None else {}
    heads = ["Agent", ">Sessions", ">Calls", ">Spent", ">Stopped", ">Calls saved", ">Money saved"]
    heads[4:4] = [">Stopped before"] if old is not None else []
    rows = []
    order = sorted(_by_agent(report).items(), key=lambda one: (-one[1]["stopped"], -one[1]["cost"], one[0]))
    for agent, found in order:
        stopped = [count(before.get(agent, Counter())["stopped"])] if old is not None else []
        rows.append([
            agent, count(found["sessions"]), count(found["calls"]), money(found["cost"]), *stopped,
            of(found["stopped"], found["sessions"]), count(found["saved"]), money(found["saved_cost"]),
        ])  # fmt: skip
    return Table("By agent", heads, rows)


def _by_agent(report: Report) -> dict[str, Counter[str]]:
    sums: dict[str, Counter[str]] = {}
    for one in report.sessions.values():
        sums.setdefault(one.agent or "(no name)", Counter()).update(
            sessions=1, calls=one.calls, cost=one.cost_nano_usd, stopped=one.blocked_at is not None,
            saved=one.saved_calls, saved_cost=one.saved_nano_usd,
        )  # fmt: skip
    return sums


def spent(report: Report) -> list[Money]:
    """What the dearest agents have spent."""
    dearest = sorted(_by_agent(report).items(), key=lambda one: (-one[1]["cost"], one[0]))[:_MAX_BARS]
    most = dearest[0][1]["cost"] if dearest else 0
    return [
        Money(
            name, 100 * share(found["cost"], most), 100 * share(found["saved_cost"], most),
            f"{money(found['saved_cost'])} of {money(found['cost'])}",
            f"{name}: {money(found['saved_cost'])} of {money(found['cost'])} could be saved",
        )
        for name, found in dearest
        if most
    ]  # fmt: skip


def coverage_table(report: Report) -> Table:
    """How much the rules could see."""
    rows = [[meaning, count(report.coverage[name])] for name, meaning in COVERAGE.items()]
    rows.append(["undecodable requests and files", count(report.undecodable)])
    return Table("What the rules could see", ["What", ">Count"], rows)
