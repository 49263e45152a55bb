"""PingER bursts: a `PingSpec` goes in, one `Burst` for each target and packet size comes out, each with one outcome.

A name that does not resolve, a missing privilege, no route and total loss are four different answers. A request that
this host's kernel would not take was not sent, and counts neither as sent nor as lost: a burst of which none was sent
has the outcome of the first refusal; one of which some were sent is `measured`, and `detail` says what is missing.
How the requests are flown is `probes.ping.cycle`'s business.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import numpy as np

from probes.choice import Choice
from probes.contract import Deadline, NoRoute, ProbeError
from probes.ping import kernel
from probes.ping.channel import Channel
from probes.ping.cycle import Cycle
from probes.ping.echo import MAX_PACKET_BYTES, MIN_PACKET_BYTES
from probes.ping.plain import PlainChannel
from probes.ping.resolve import resolve
from probes.ping.spec import Burst, PingSpec

MIN_SPACING_S = 0.01
MAX_COUNT = 10_000


def problems(spec: PingSpec) -> list[str]:
    """What is wrong with the numbers of a spec; empty if nothing is."""
    found = [
        f"packet_bytes {size}: must be from {MIN_PACKET_BYTES} to {MAX_PACKET_BYTES}"
        for size in (*spec.packet_bytes, *([] if spec.priming_bytes is None else [spec.priming_bytes]))
        if not MIN_PACKET_BYTES <= size <= MAX_PACKET_BYTES
    ]
    if not spec.packet_bytes:
        found.append("packet_bytes: give at least one size")
    if not 1 <= spec.count <= MAX_COUNT:
        found.append(f"count {spec.count}: must be from 1 to {MAX_COUNT}")
    if not MIN_SPACING_S <= spec.spacing_s <= 3600:
        found.append(f"spacing_s {spec.spacing_s}: must be from {MIN_SPACING_S} to 3600; we are guests at the far end")
    if not 0 < spec.timeout_s <= 60:
        found.append(f"timeout_s {spec.timeout_s}: must be above 0 and at most 60")
    if not 0 <= spec.late_s <= 60:
        found.append(f"late_s {spec.late_s}: must be from 0 to 60")
    return found


def measure(spec: PingSpec, deadline: Deadline, *, plain: bool = False) -> tuple[Burst, ...]:
    """Measure all targets at once. Returns, in the order of the targets, one burst for each size in order.

    In batches and by the kernel's stamps, which takes 64-bit Linux; or with `plain` sockets, on any system.

    Raises ProbeError only where the spec itself is wrong. What cannot be measured is a burst with its outcome.
    """
    wrong = problems(spec)
    if wrong:
        raise ProbeError("; ".join(wrong), permanent=True)
    now = datetime.now(UTC)
    answers = resolve([(target.address, target.family) for target in spec.targets], deadline)
    with Cycle(spec, answers, now, plain=plain) as cycle:
        cycle.run(deadline)
        return cycle.bursts()


def summary(burst: Burst) -> dict[str, float | None]:
    """The numbers derived from a burst; None where undefined.

    `ipdv_ms` is PingER's: the interquartile range of the signed differences of the round trips of probes that were
    sent one after the other and both came back (RFC 5481, section 4.1). Quartiles by linear interpolation.
    """
    rtts_ms = np.array([np.nan if rtt is None else rtt for rtt in burst.rtts_ms], np.float64)
    received = rtts_ms[~np.isnan(rtts_ms)]
    differences = np.diff(rtts_ms)
    differences = differences[~np.isnan(differences)]
    quartiles = np.percentile(differences, (25, 75)) if len(differences) else None
    return {
        "loss_ratio": (burst.sent - burst.received) / burst.sent if burst.sent else None,
        "rtt_min_ms": float(received.min()) if len(received) else None,
        "rtt_median_ms": float(np.median(received)) if len(received) else None,
        "rtt_avg_ms": float(received.mean()) if len(received) else None,
        "rtt_max_ms": float(received.max()) if len(received) else None,
        "ipdv_ms": None if quartiles is None else float(quartiles[1] - quartiles[0]),
    }


class IcmpProbe:
    """The `ping` measurement made with ICMP echo requests in batches, which the kernel stamps
    (`probes.contract.Probe`)."""

    def can_run(self, spec: PingSpec) -> list[str]:
        """Reasons why not, each with its mend."""
        if sys.platform != "linux" or sys.maxsize < 2**32:
            return [*problems(spec), "ping: needs 64-bit Linux, whose kernel stamps packets"]
        missing = kernel.missing_calls()
        if missing:
            return [*problems(spec), f"ping: this system, or its sandbox, does not have {' and '.join(missing)}"]
        return [*problems(spec), *_closed(spec, Channel)]

    def run(self, spec: PingSpec, deadline: Deadline) -> tuple[Burst, ...]:
        """As `measure`."""
        return measure(spec, deadline)


class PlainIcmpProbe:
    """The `ping` measurement made with ICMP echo requests over plain sockets, one at a time, timed by this program
    (`probes.contract.Probe`)."""

    def can_run(self, spec: PingSpec) -> list[str]:
        """Reasons why not, each with its mend."""
        return [*problems(spec), *_closed(spec, PlainChannel)]

    def run(self, spec: PingSpec, deadline: Deadline) -> tuple[Burst, ...]:
        """As `measure`, plain."""
        return measure(spec, deadline, plain=True)


def _closed(spec: PingSpec, open_channel: Callable[..., Channel]) -> Iterator[str]:
    """Why no channel can be had over a family. A family that this machine does not have is its targets' outcome."""
    for family in sorted({target.family for target in spec.targets}):
        try:
            open_channel(family, dont_fragment=spec.dont_fragment).close()
        except NoRoute:
            continue
        except ProbeError as error:
            yield f"ping over IPv{family}: {error}"


PING = Choice(IcmpProbe(), PlainIcmpProbe())
