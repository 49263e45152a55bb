"""Tables [throughput] and [iperf3_server] of limits.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from probes.limit_keys import ALL_DAY, FLOAT_SLACK, Hours, NetworkList, Number
from probes.quantities import with_unit
from probes.toml.keys import meaning


class FillsThePath(Protocol):
    """A spec that loads its path, with maximum length and any rate limit."""

    @property
    def length_s(self) -> float: ...

    @property
    def rate_bps(self) -> int | None: ...


class ThroughputLimits(msgspec.Struct, frozen=True, kw_only=True):
    max_duration_s: Annotated[Number, meaning("maximum length of a test, omitted start included")] = 60.0
    max_minutes_per_day: Annotated[Number | None, meaning("tests from and to this site per UTC day")] = None
    max_bits_per_day: Annotated[Number | None, meaning("sent and received by tests per UTC day")] = None
    max_streams: Annotated[Number, meaning("parallel streams of a test")] = 128
    max_parallel_tests: Annotated[
        Number, meaning("tests at the same time, as those of an aggregate test's members from or to this site")
    ] = 16
    max_window_bytes: Annotated[
        Number | None, meaning("socket buffer of a stream that a test may set; default: the system's limit")
    ] = None
    max_capture_packets: Annotated[
        Number, meaning("packets whose headers this site keeps of a test, and delivers to the centre; 0 keeps none")
    ] = 0
    hours: Hours = ALL_DAY
    peers: Annotated[
        NetworkList | None,
        meaning("peers allowed to run tests toward this site; default: networks that may be measured"),
    ] = None

    def forbids_load(self, streams: int, window_bytes: int | None) -> str | None:
        """The exceeded limit as a sentence, or None."""
        if streams > self.max_streams:
            return f"throughput.max_streams: {streams} wanted, {self.max_streams:g} allowed"
        if self.max_window_bytes is not None and window_bytes is not None and window_bytes > self.max_window_bytes:
            return f"throughput.max_window_bytes: {window_bytes} wanted, {self.max_window_bytes:.0f} allowed"
        return None

    def forbids_beside(self, running: int) -> str | None:
        """The exceeded limit as a sentence, or None."""
        if running < self.max_parallel_tests:
            return None
        return f"throughput.max_parallel_tests: {running} tests run now, {self.max_parallel_tests:g} allowed"

    def forbids_length(self, spec: FillsThePath) -> str | None:
        """The exceeded limit as a sentence, or None."""
        length_s = spec.length_s
        if length_s <= self.max_duration_s:
            return None
        return f"throughput.max_duration_s: {length_s:g} s wanted, {self.max_duration_s:g} s allowed"

    def forbids_share(self, length_s: float, used_s: float, expected_bits: float, used_bits: float) -> str | None:
        """The exceeded daily limit as a sentence, or None; `expected_bits` is an estimate."""
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


@dataclass(frozen=True, slots=True)
class OfferedTest:
    """A test of an outside client, with its maximum length and rate."""

    length_s: float
    rate_bps: int | None


class Iperf3ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """An iperf3 server for others. [throughput] applies to their tests too."""

    clients: Annotated[
        NetworkList,
        meaning("networks whose hosts may run iperf3 tests to this site's server; no server runs without any"),
    ] = ()
    port: Annotated[
        int, Meta(ge=1, le=65_535), meaning("port of the server, TCP and UDP; not a port of the mesh's own tests")
    ] = 5200
    max_duration_s: Annotated[Number, meaning("maximum length of a client's test")] = 30.0
    max_bps: Annotated[
        Number | None, meaning("a test above this rate, averaged over 5 s, is ended; default: no limit")
    ] = None
    max_minutes_per_day: Annotated[Number, meaning("tests of clients per UTC day")] = 60.0
    hours: Hours = ALL_DAY

    def forbids_share(self, length_s: float, used_s: float) -> str | None:
        """The exceeded daily limit as a sentence, or None."""
        if used_s + length_s <= self.max_minutes_per_day * 60 + FLOAT_SLACK:
            return None
        return (
            f"iperf3_server.max_minutes_per_day: {length_s:g} s after {used_s / 60:.1f} minutes today, "
            f"{self.max_minutes_per_day:g} minutes allowed"
        )
