"""The section `budgets`: a mapping from `scope` or `scope/name` to what may be spent."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from spanfuse_processor.config.section import Section, without_nulls
from spanfuse_schemas import Budget
from spanfuse_schemas.budget import ANYBODY, SCOPES, BudgetScope, Terms
from spanfuse_schemas.policy import SessionBudget

_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)

Named = Annotated[Terms, BeforeValidator(without_nulls(Terms))]
Problem = tuple[tuple[str, ...], str]
"""Where, and what."""


class Budgets(Section):
    """Each key is a scope (`session`, `trace`, `agent`, `user`, `team` or `global`), alone or with a name after it, such as
    `user/daily`. All budgets that apply to a call hold. Of several of one scope, unit and period, the one holds whose `for`
    names the identity most exactly."""

    NAMED: ClassVar[type[BaseModel]] = Terms
    """What stands behind a name of the operator's."""
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Named]

    session: Annotated[SessionBudget, BeforeValidator(without_nulls(SessionBudget))] = SessionBudget()
    """By one session: the rule `budget.session`, which `policies` can change. Its other budgets have a name, such as
    `session/tokens`."""

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """All problems at once: of the names, of what stands behind each, else of all together."""
        if not isinstance(value, dict):
            return handler(value)
        problems = [
            _problem((key,), "budget", text) for key in value if isinstance(key, str) and (text := _misnamed(key))
        ]
        wrong = {problem["loc"][0] for problem in problems}
        try:
            found = handler({key: terms for key, terms in value.items() if key not in wrong})
            problems += [_problem(where, "budget", text) for where, text in found._contradictions()]
        except ValidationError as error:
            problems += [_problem(one["loc"], one["type"], one["msg"]) for one in error.errors(include_input=False)]
        if problems:
            raise ValidationError.from_exception_data("budgets", problems)
        return found

    def named(self) -> tuple[Budget, ...]:
        """The budgets that have a name, or another scope than `session`."""
        return tuple(
            Budget.model_validate({"name": name, "scope": scope_of(name), **terms.model_dump(by_alias=True)})
            for name, terms in self.__pydantic_extra__.items()
        )

    def _contradictions(self) -> Iterator[Problem]:
        seen: dict[tuple[str, ...], str] = {}
        for name, terms in self.__pydantic_extra__.items():
            for field, text in _deaf(scope_of(name), terms):
                yield (name, field), text
            what = scope_of(name), terms.match, terms.unit, terms.period
            first = seen.setdefault(what, name)
            if first != name:
                yield (name,), f"for the same as {first}, in the same unit and period: only one of them could hold"


def scope_of(name: str) -> BudgetScope:
    """The scope of a budget, which its name begins with."""
    return cast(BudgetScope, name.partition("/")[0])


def _deaf(scope: str, terms: Terms) -> Iterator[tuple[str, str]]:
    """Settings that could have no effect."""
    given = terms.model_fields_set
    if scope == "global" and terms.match != ANYBODY:
        yield "for", "the global budget is everybody's: it has no `for`"
    if "time_zone" in given and terms.period == "total":
        yield "time_zone", "a total never begins anew: it has no time zone"
    if "on_unavailable" in given and terms.strength == "soft":
        yield "on_unavailable", "a soft budget asks no ledger; set strength: strict, or leave it out"


def _misnamed(key: str) -> str:
    """What is wrong with the name of a budget; empty: nothing."""
    scope, slash, name = key.partition("/")
    if scope not in SCOPES:
        near = difflib.get_close_matches(scope, SCOPES, n=1)
        return f"unknown scope; did you mean {near[0]}?" if near else f"unknown scope; known are {', '.join(SCOPES)}"
    if slash and not _NAME.fullmatch(name):
        return "after the scope comes a name of letters, digits, dots, dashes and underscores, 64 at most"
    return ""


def _problem(where: tuple[str | int, ...], kind: str, text: str) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(kind, "{text}", {"text": text}), loc=where, input=None)
