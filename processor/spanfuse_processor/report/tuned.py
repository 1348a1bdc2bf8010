"""The report of a study: which settings are recommended, what they change, and how far that can be believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spanfuse_processor.hosts.replay.report import Report, SessionReport
from spanfuse_processor.hosts.tuning.held_out import doubts
from spanfuse_processor.hosts.tuning.score import Score
from spanfuse_processor.hosts.tuning.settings import Changes, applied
from spanfuse_processor.hosts.tuning.study import VERDICTS, Study
from spanfuse_processor.hosts.tuning.wilson import interval
from spanfuse_processor.hosts.tuning.written import written
from spanfuse_processor.page.formats import count, lasted, money
from spanfuse_processor.report.parts import Bar, Compared, Page, Tile
from spanfuse_processor.report.plots import Plot, Tried, curve
from spanfuse_processor.report.replayed import (
    MAX_DRAWN,
    agents_table,
    coverage_table,
    groups,
    made_of,
    rules_table,
    sizes,
    sizes_table,
    spent,
)
from spanfuse_processor.report.timelines import Timeline
from spanfuse_processor.report.tuned_tables import changes_table, frontier_table, settings, tools_tables, values_table
from spanfuse_processor.report.words import of, plural, share

_TITLES: Final = {
    "wrong": (
        "Good sessions that would be stopped",
        "Each of these is a wrong stop. Read them before anything is enforced.",
    ),
    "missed": ("Runaways that would go on", "What no setting that was tried stops without too many wrong stops."),
    "new": ("Runaways that are stopped with the recommended settings only", ""),
    "caught": ("Runaways that are stopped", "Those that save most. What is faded would not have happened."),
}


def chosen(study: Study) -> dict[str, list[str]]:
    """The sessions that are drawn, by kind."""
    then, now = study.then or study.now, study.now
    found: dict[str, list[SessionReport]] = {kind: [] for kind in _TITLES}
    for label in study.trials.labels:
        one = then.sessions[label.session]
        stopped = one.blocked_at is not None
        early = one.blocked_at is not None and one.blocked_at < (label.onset or 0)
        if stopped and (label.label == "good" or (label.label == "runaway" and early)):
            found["wrong"].append(one)
        elif label.label == "runaway" and not stopped:
            found["missed"].append(one)
        elif label.label == "runaway":
            found["caught" if now.sessions[label.session].blocked_at is not None else "new"].append(one)
    return {kind: [one.session for one in sorted(some, key=_most)[:MAX_DRAWN]] for kind, some in found.items()}


def _most(one: SessionReport) -> tuple[int, int, str]:
    return -(one.saved_nano_usd or one.cost_nano_usd), -one.calls, one.session


def tuned(study: Study, lines: Mapping[str, Timeline]) -> Page:
    """The page of a study.

    Args:
        lines: the sessions drawn, see `chosen`.
    """
    report: Report = study.then or study.now
    old = study.now if study.then is not None else None
    kinds = {label.session: label.label for label in study.trials.labels}
    page = Page(
        title="How the circuit breaker should be set",
        lead=[],
        made_of=made_of(study.now),
        plots=[sizes(study.now, kinds, _limits(study))],
        money=spent(report),
        groups=groups(chosen(study), _TITLES, lines),
        tables=[rules_table(report, old), agents_table(report, old), *tools_tables(study)],
        details=[values_table(study), sizes_table(study.now, kinds), coverage_table(study.now)],
    )
    for name, line in lines.items():
        line.kind = kinds.get(name, "")
    if not kinds:
        page.title = "What each setting would stop"
        page.lead = [_unlabelled(study), VERDICTS["no_labels"]]
        return page
    now, then = study.trials.score(()), study.trials.score(study.recommended)
    page.lead = [_lead(study, now, then), _outcome(study)]
    page.tiles = _tiles(now, then, changed=bool(study.recommended))
    page.cautions = doubts(then, study.percent, study.held)
    if study.recommended:
        page.changes, page.policy = changes_table(study), written(study)
        page.legend, page.compared = ("as configured", "recommended"), _compared(now, then)
    if then.good and then.runaways:
        page.plots.insert(0, _frontier(study))
        page.details.insert(0, frontier_table(study))
    return page


def _lead(study: Study, now: Score, then: Score) -> str:
    """What the figures are, for somebody who has seen no figure before."""
    begin = (
        f"Of {plural(then.runaways + then.good, 'agent session')} in this recording it is known how they went: "
        f"{count(then.runaways)} ran away, {count(then.good)} got on."
    )
    if not study.recommended:
        return (
            f"{begin} As it is configured, spanfuse would have stopped {of(then.stopped, then.runaways)} runaways and "
            f"{of(then.good_stopped, then.good)} good sessions, and saved {_saved(then)}."
        )
    return (
        f"{begin} With the recommended settings spanfuse would have stopped {of(then.stopped, then.runaways)} runaways and "
        f"{of(then.good_stopped, then.good)} good sessions, and saved {_saved(then)}. As it is configured it would have "
        f"stopped {plural(now.stopped, 'runaway')} and {plural(now.good_stopped, 'good session')}, and saved {_saved(now)}."
    )


def _saved(score: Score) -> str:
    return f"{plural(score.saved_calls, 'useless call')} and {money(score.saved_nano_usd)}"


def _outcome(study: Study) -> str:
    """What comes of it."""
    said = VERDICTS[study.verdict]
    if study.recommended and study.held is not None:
        held = study.held.score
        said += (
            f" Chosen without the sessions that judge them, such settings stop {of(held.stopped, held.runaways)} runaways and "
            f"{of(held.good_stopped, held.good)} good sessions."
        )
    allowed = "no good session" if not study.percent else f"at most {study.percent:g} % of the good sessions"
    return f"{said} What was looked for: {allowed} stopped, then most runaways, then the earliest stop, then the least change."


def _unlabelled(study: Study) -> str:
    point = study.trials[()]
    sessions = len(study.now.sessions)
    return (
        f"In this recording agents made {plural(study.now.coverage['llm_calls'], 'model call')} in "
        f"{plural(sessions, 'session')}. As it is configured, spanfuse would have stopped {of(point.stopped, sessions)}, and "
        f"saved up to {plural(point.saved_calls, 'call')} and {money(point.saved_nano_usd)}."
    )


def _tiles(now: Score, then: Score, *, changed: bool) -> list[Tile]:
    def before(value: str) -> str:
        return f" · as configured {value}" if changed else ""

    late = then.calls_to_stop_p50
    seconds = "" if not then.seconds_p50 else f", {lasted(round(then.seconds_p50 * 1e9))} after the loop began"
    seconds += f" and {money(then.nano_usd_p50)} into it" if seconds and then.nano_usd_p50 is not None else ""
    return [
        Tile("Runaways stopped", count(then.stopped), f"of {count(then.runaways)}{before(count(now.stopped))}"),
        Tile(
            "Good sessions stopped",
            count(then.good_stopped),
            f"of {count(then.good)}{before(count(now.good_stopped))}",
            bad=then.good_stopped > 0,
        ),
        Tile("Useless calls saved", count(then.saved_calls), f"by stopped runaways{before(count(now.saved_calls))}"),
        Tile("Money saved", money(then.saved_nano_usd), f"by stopped runaways{before(money(now.saved_nano_usd))}"),
        Tile("Too late by", "–" if late is None else plural(int(late), "call"), f"median{seconds}"),
        Tile(
            "Useless calls let through",
            count(then.wasted_calls),
            f"of {count(then.wasted_unguarded)}{before(count(now.wasted_calls))}",
        ),
    ]


def _compared(now: Score, then: Score) -> list[Compared]:
    def pair(name: str, part: str, whole: str, status: str) -> Compared:
        bars = []
        for which, one in (("As configured", now), ("Recommended", then)):
            told = of(getattr(one, part), getattr(one, whole))
            color = "plain" if one is now else status
            bars.append(Bar(told, share(getattr(one, part), getattr(one, whole)), f"{which}: {told}", color))
        return Compared(name, tuple(bars))

    return [
        pair("Runaways stopped", "stopped", "runaways", ""),
        pair("Good sessions stopped", "good_stopped", "good", "exhausted"),
        pair("Useless calls let through", "wasted_calls", "wasted_unguarded", "warning"),
    ]


def _limits(study: Study) -> list[tuple[float, str, str]]:
    """The caps on a session's length, as marks."""
    found = {}
    for name, changes in (("limit", ()), ("recommended limit", study.recommended)):
        policy = applied(study.trials.policy, changes)
        if policy is not None and policy.rules.limits.max_steps is not None:
            found[policy.rules.limits.max_steps] = name
    return [(steps, f"{name} {count(steps)}", "limit") for steps, name in found.items()]


def _frontier(study: Study) -> Plot:
    """All that was tried, as points."""
    trials = study.trials
    scores = {changes: trials.score(changes) for changes in trials.tried}
    runaways, good = scores[()].runaways, scores[()].good
    tried = [_tried(changes, one, "tried") for changes, one in scores.items()]
    tried += [_tried(changes, scores[changes], "best") for changes in study.points]
    tried.append(_tried((), scores[()], "now"))
    if study.recommended:
        tried.append(_tried(study.recommended, scores[study.recommended], "then"))
    return curve(tried, runaways, good, "Runaways stopped against good sessions stopped")


def _tried(changes: Changes, score: Score, kind: str) -> Tried:
    name = {"now": "As configured", "then": "Recommended"}.get(kind, settings(changes))
    said = f"{name}: {of(score.stopped, score.runaways)} runaways, {of(score.good_stopped, score.good)} good sessions stopped"
    return Tried(
        score.wrong,
        score.stopped,
        kind,
        said,
        interval(score.stopped, score.runaways),
        interval(score.wrong, score.good),
    )
