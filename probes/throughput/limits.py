"""The table [throughput] of limits.toml: limits of all tests that load their path."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec

from probes.limit_keys import ALL_DAY, FLOAT_SLACK, Hours, NetworkList, Number
from probes.quantities import with_unit
from probes.toml.keys import meaning


class FillsThePath(Protocol):
    """A spec whose test loads its path: its maximum length, and its rate limit if there is any."""

    @property
    def length_s(self) -> float: ...

    @property
    def rate_bps(self) -> int | None: ...


class ThroughputLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_duration_s: Annotated[Number, meaning("maximum length of a test, omitted start included")] = 60.0
    max_minutes_per_day: Annotated[Number | None, meaning("tests from and to this site per UTC day")] = None
    max_bits_per_day: Annotated[Number | None, meaning("sent and received by tests per UTC day")] = None
    hours: Hours = ALL_DAY
    peers: Annotated[
        NetworkList | None,
        meaning("peers allowed to run tests toward this site; default: networks that may be measured"),
    ] = None

    def forbids_length(self, spec: FillsThePath) -> str | None:
        """The limit that a test of this length exceeds, as a sentence; None if it is allowed."""
        length_s = spec.length_s
        if length_s <= self.max_duration_s:
            return None
        return f"throughput.max_duration_s: {length_s:g} s wanted, {self.max_duration_s:g} s allowed"

    def forbids_share(self, length_s: float, used_s: float, expected_bits: float, used_bits: float) -> str | None:
        """The daily limit that a test would exceed, as a sentence; `expected_bits` estimates the bits it transfers."""
        minutes, bits = self.max_minutes_per_day, self.max_bits_per_day
        if minutes is not None and used_s + length_s > minutes * 60 + FLOAT_SLACK:
            return (
                f"throughput.max_minutes_per_day: {length_s:g} s after {used_s / 60:.1f} minutes today, "
                f"{minutes:g} minutes allowed"
            )
        if bits is not None and (used_bits >= bits or used_bits + expected_bits > bits):
            return (
                f"throughput.max_bits_per_day: about {with_unit(expected_bits, 'bit')} after "
                f"{with_unit(used_bits, 'bit')} today, {with_unit(bits, 'bit')} allowed"
            )
        return None
