"""The limits that a site sets for its agent, which the centre cannot widen, and their checks.

`forbids_…` methods return the rule against a measurement, or None.
"""

from __future__ import annotations

import ipaddress
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from probes.kinds import KINDS
from probes.limit_keys import HourList
from probes.site.limits.networks import Networks, forbids_address, is_within
from probes.throughput.limits import FillsThePath

DAY_MINUTES = 24 * 60


# The section with the rules of every test that fills its path.
FILLING = "throughput"


class LimitsOfKinds(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a site for all kinds."""

    networks: Networks = Networks()

    def section(self, name: str) -> Any:
        return getattr(self, name)

    def forbids_address(self, address: str) -> str | None:
        """The rule against a literal address, or None; embedded IPv4 addresses count too."""
        return forbids_address(self.networks, address)

    def forbids_peer(self, address: str | None) -> str | None:
        """The rule against serving a peer, or None; `address` is None where the plan does not say."""
        peers = self.section(FILLING).peers
        if peers is None:
            return None if address is None else self.forbids_address(address)
        if address is None:
            return "throughput.peers: the plan does not say who comes"
        for network in (
            network for network in self.networks.forbidden if is_within(ipaddress.ip_address(address), (network,))
        ):
            return f"networks.forbidden: {address} is in {network}"
        if not is_within(ipaddress.ip_address(address), peers):
            return f"throughput.peers: {address} is in none of them"
        return None

    def forbids_time(self, section: str, begins_at: datetime, length_s: float) -> str | None:
        """The rule by hours: all of the measurement must lie in the section's."""
        hours: HourList = self.section(section).hours
        if contains(hours, begins_at.astimezone(UTC), timedelta(seconds=length_s)):
            return None
        begins = f"{begins_at.astimezone(UTC):%H:%M} UTC"
        return f"{section}.hours: {begins} for {length_s:g} s is not within {', '.join(hours) or 'any hours'}"

    def forbids_length(self, spec: FillsThePath) -> str | None:
        rule: str | None = self.section(FILLING).forbids_length(spec)
        return rule

    def forbids_beside(self, running: int) -> str | None:
        rule: str | None = self.section(FILLING).forbids_beside(running)
        return rule

    def forbids_share(self, length_s: float, used_s: float, expected_bits: float, used_bits: float) -> str | None:
        rule: str | None = self.section(FILLING).forbids_share(length_s, used_s, expected_bits, used_bits)
        return rule


if TYPE_CHECKING:

    class Limits(LimitsOfKinds, frozen=True, kw_only=True):
        def __init__(self, *, networks: Networks = ..., **sections: msgspec.Struct) -> None: ...
        def __getattr__(self, section: str) -> Any: ...

else:
    Limits = msgspec.defstruct(
        "Limits",
        [(name, rules, rules()) for kind in KINDS.values() for name, rules in kind.limits.items()],
        bases=(LimitsOfKinds,),
        module=__name__,
        frozen=True,
        kw_only=True,
    )


def contains(hours: HourList, begins_at: datetime, length: timedelta) -> bool:
    """Whether all of a period lies in the hours of the days that it touches."""
    midnight = begins_at.replace(hour=0, minute=0, second=0, microsecond=0)
    begins_min = (begins_at - midnight) / timedelta(minutes=1)
    ends_min = begins_min + length / timedelta(minutes=1)
    days = range(-1, math.ceil(ends_min / DAY_MINUTES))
    reached = begins_min
    for start, end in sorted(
        (day * DAY_MINUTES + start, day * DAY_MINUTES + end) for day in days for start, end in map(_minutes, hours)
    ):
        if start <= reached < end:
            reached = end
    return reached > begins_min and reached >= ends_min


def _minutes(text: str) -> tuple[int, int]:
    start, end = (int(part[:2]) * 60 + int(part[3:]) for part in text.split("-"))
    return start, end if end > start else end + DAY_MINUTES
