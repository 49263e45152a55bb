"""Daily budgets of throughput tests, [budget] in mesh.toml, enforced at the centre besides sites' limits. Pure; days
are UTC, since the epoch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from probes.quantities import with_unit
from probes.toml.keys import meaning

# Prefix of each rule's name.
RULE = "budget."
DAY_S = 86_400

# A scope, and the name of a path, host or uplink.
Account = tuple[str, str]


class ScopeBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Maximum daily values of a path, host or uplink."""

    max_minutes_per_day: (
        Annotated[float, Meta(ge=0, le=1440), meaning("Maximum time of throughput tests per UTC day.")] | None
    ) = None
    max_bytes_per_day: (
        Annotated[float, Meta(ge=0, le=1e18), meaning("Maximum volume that throughput tests send per UTC day.")] | None
    ) = None


class BudgetKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The [budget] table."""

    path: ScopeBudget | None = None
    host: ScopeBudget | None = None
    uplink: ScopeBudget | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a test, measured or expected. Bytes are 0 where the capacity of the path is unknown."""

    seconds: float
    carried_bytes: float = 0.0


class Budgets:
    def __init__(self, rules: Mapping[str, Mapping[str, float]]) -> None:
        self._rules = rules
        self._used: dict[tuple[Account, int], Cost] = defaultdict(lambda: Cost(0.0))

    def spend(self, accounts: Collection[Account], at_s: float, cost: Cost) -> None:
        """Count a test that begins at `at_s` (seconds since the epoch)."""
        for account in accounts:
            used = self._used[account, int(at_s // DAY_S)]
            self._used[account, int(at_s // DAY_S)] = Cost(
                used.seconds + cost.seconds, used.carried_bytes + cost.carried_bytes
            )

    def forbids(self, accounts: Collection[Account], at_s: float, cost: Cost) -> str | None:
        """Rule violated by a further test at `at_s`, or None."""
        for account in accounts:
            rule = self._over(account, int(at_s // DAY_S), cost)
            if rule is not None:
                return rule
        return None

    def _over(self, account: Account, day: int, cost: Cost) -> str | None:
        scope, name = account
        rules = self._rules.get(scope, {})
        used = self._used[account, day]
        date = datetime.fromtimestamp(day * DAY_S, UTC).date()
        minutes, most_bytes = rules.get("max_minutes_per_day"), rules.get("max_bytes_per_day")
        if minutes is not None and used.seconds + cost.seconds > 60 * minutes:
            return (
                f"{RULE}{scope}.max_minutes_per_day: {cost.seconds:g} s after {used.seconds / 60:.1f} minutes of "
                f"{name} on {date}, {minutes:g} minutes allowed"
            )
        if most_bytes is not None and (
            used.carried_bytes >= most_bytes or used.carried_bytes + cost.carried_bytes > most_bytes
        ):
            return (
                f"{RULE}{scope}.max_bytes_per_day: about {with_unit(cost.carried_bytes, 'B')} after "
                f"{with_unit(used.carried_bytes, 'B')} of {name} on {date}, {with_unit(most_bytes, 'B')} allowed"
            )
        return None
