"""What throughput tests may use a day: the [budget] tables of mesh.toml, held at the centre besides the sites' limits.

`Budgets` is told of every test of the days in question and says which further one would be too much. Pure: seconds,
bytes and numbers of days (UTC, since the epoch) in, the rule that forbids out. What is counted is in `slots`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

SCOPES = ("path", "host", "uplink")
KEYS = {"max_minutes_per_day": 1440.0, "max_bytes_per_day": 1e18}
"""Of each scope, with the most that may be written."""

RULE = "budget."
"""How the name of each rule begins."""
DAY_S = 86_400

Account = tuple[str, str]
"""A scope, and the name of a path, host or uplink."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a test takes, or may take. Bytes are 0 where nobody knows what the path carries."""

    seconds: float
    carried_bytes: float = 0.0


class Budgets:
    """What is used of each budget."""

    def __init__(self, rules: Mapping[str, Mapping[str, float]]) -> None:
        self._rules = rules
        self._used: dict[tuple[Account, int], Cost] = defaultdict(lambda: Cost(0.0))

    def spend(self, accounts: Collection[Account], at_s: float, cost: Cost) -> None:
        """A test that begins at `at_s` (seconds since the epoch) counts."""
        for account in accounts:
            used = self._used[account, int(at_s // DAY_S)]
            self._used[account, int(at_s // DAY_S)] = Cost(
                used.seconds + cost.seconds, used.carried_bytes + cost.carried_bytes
            )

    def forbids(self, accounts: Collection[Account], at_s: float, cost: Cost) -> str | None:
        """The rule against a further test that begins at `at_s`, or None."""
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
                f"{RULE}{scope}.max_bytes_per_day: about {cost.carried_bytes:.3g} after {used.carried_bytes:.3g} of "
                f"{name} on {date}, {most_bytes:.3g} allowed"
            )
        return None
