"""Where `spanfuse budget` looks and orders: the API, or Kafka."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from spanfuse_processor.cli.api import Api
from spanfuse_processor.cli.kafka import kafka_settings, run_errand
from spanfuse_processor.config import Config, load_config
from spanfuse_processor.hosts.ledger import LedgerLink
from spanfuse_schemas import BudgetOrder


class Books(Protocol):
    """The accounts of a deployment."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def rows(self, scope: str) -> list[dict[str, Any]]:
        """The accounts of one scope, or of all."""

    def order(self, order: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Give an order: `done`, `why`, `account`."""

    def audit(self, limit: int) -> list[dict[str, Any]]:
        """What became of the last orders, newest first."""

    def rebuild(self) -> int:
        """Set the ledger to what the spans tell; how many accounts."""


class ApiBooks:
    """Those of a running host.

    Args:
        url: base URL of its API.
        token: presented to it; none: it needs none.
    """

    def __init__(self, url: str, token: str | None) -> None:
        self._api = Api(url, token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._api.__exit__(kind, error, trace)

    def rows(self, scope: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api.get("/v1/budgets", scope=scope)["budgets"]
        return found

    def order(self, order: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        done: dict[str, Any] = self._api.post("/v1/budgets/orders", order, timeout_s)
        return done

    def audit(self, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api.get("/v1/budgets/audit", limit=limit)["audit"]
        return found

    def rebuild(self) -> int:
        return int(self._api.post("/v1/budgets/rebuild", {})["accounts"])


class KafkaBooks:
    """Those of a stream deployment, and its ledger if the configuration names one.

    Args:
        config_path: its configuration, which has the budgets.
        brokers: instead of those of the configuration.
    """

    def __init__(self, config_path: Path | None, brokers: str | None) -> None:
        self._settings = kafka_settings(config_path, brokers)
        self._config = load_config(config_path) if config_path is not None else Config()
        self._link = LedgerLink(self._config) if self._config.extensions.ledger is not None else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._link is not None:
            self._link.close()

    def rows(self, scope: str) -> list[dict[str, Any]]:
        from spanfuse_processor.hosts.budget_orders import read_accounts

        rows = run_errand(read_accounts(self._settings, self._config.policy(), scope))
        return rows if self._link is None else self._link.with_holds(rows)

    def order(self, order: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        from spanfuse_processor.hosts.budget_orders import give_order

        given = BudgetOrder.model_validate(order)
        if self._link is not None:  # first, since it can be away
            self._link.order(given)
        done = run_errand(give_order(self._settings, given, timeout_s))
        return {"done": done.done, "why": done.why, "account": done.account}

    def audit(self, limit: int) -> list[dict[str, Any]]:
        from spanfuse_processor.hosts.budget_orders import read_audit

        found = run_errand(read_audit(self._settings, limit))
        return [one.model_dump(mode="json", exclude_defaults=True) | {"done": one.done} for one in found]

    def rebuild(self) -> int:
        from spanfuse_processor.errors import ConfigError

        if self._link is None:
            raise ConfigError(["extensions.ledger: missing; needed here"])
        return self._link.rebuild(self.rows(""))
