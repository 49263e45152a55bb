"""What one TCP transfer gets on a path, and what holds it, from what was measured of the path over a period.

In: the path's summary and its throughput tests of the period. Out: an `Estimate` of `monitor.analysis.tcp` with what it
was made of:
  - round trip and loss are the pings', bursts during our own tests left out;
  - the window is the largest that the receiver gave to one stream in the tests of the period;
  - the capacity is that of `monitor.archive.transfers.backgrounds`: measured, and no less than the best test;
  - congestion control and streams are those of the newest test. BBR does not go by loss: its loss counts as none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.analysis.sketches import RTT_MS, Sketches
from monitor.analysis.tcp import CongestionControl, Estimate, Loss, Rtt, Transfer, estimate
from monitor.archive.periods import cover
from monitor.archive.queries import PathSummary, ThroughputPoint, ask
from monitor.archive.statements import statement
from monitor.archive.transfers import backgrounds

TAILS = (0.1, 0.9)
"""Of the round trips: what is between them is the 80% of the interval."""


@dataclass(frozen=True, slots=True)
class PathEstimate:
    """An estimate, and the figures that it was made of. `sender` is the congestion control of the tests, None where no
    test says; it is not that of `transfer` where there is no model for it."""

    found: Estimate
    rtt: Rtt
    loss: Loss
    transfer: Transfer
    sender: str | None


def path_estimate(
    summary: PathSummary | None, tests: Sequence[ThroughputPoint], since: datetime, until: datetime
) -> PathEstimate | None:
    """The estimate for a path; None where no ping was answered in the period."""
    if summary is None or not summary.rtt_median_ms:
        return None
    measured = [test for test in tests if test.protocol == "tcp" and test.throughput_bps is not None]
    newest = measured[-1] if measured else None
    sender = None if newest is None else newest.congestion_control
    known = backgrounds([(summary.path_id, until)])[summary.path_id, until]
    rtt = _round_trip(summary, since, until)
    loss = Loss(0.0) if _is_bbr(sender) else Loss.counted(summary.lost, summary.sent)
    transfer = Transfer(
        window_bytes=max((test.peer_window_bytes for test in measured if test.peer_window_bytes), default=None),
        capacity_bps=known.capacity_bps,
        control=CongestionControl(sender) if sender in set(CongestionControl) else CongestionControl.CUBIC,
        streams=1 if newest is None else newest.streams,
    )
    return PathEstimate(estimate(rtt, loss, transfer), rtt, loss, transfer, sender)


def _is_bbr(sender: str | None) -> bool:
    return sender is not None and sender.startswith("bbr")


def _round_trip(summary: PathSummary, since: datetime, until: datetime) -> Rtt:
    """The median as the page shows it, with the tails of all round trips of the period."""
    median_ms = summary.rtt_median_ms
    assert median_ms is not None
    low_ms, high_ms = _tails(summary, since, until)
    # The median of several hours is weighted from theirs, and sketches are within 1%.
    return Rtt(median_ms, min(low_ms or median_ms, median_ms), max(high_ms or median_ms, median_ms))


def _tails(summary: PathSummary, since: datetime, until: datetime) -> tuple[float | None, float | None]:
    parameters: dict[str, object] = {"packet_bytes": summary.packet_bytes, "path_ids": [summary.path_id]}
    pieces = []
    for number, stretch in enumerate(cover(since, until)):
        parameters |= {f"since_{number}": stretch.since, f"until_{number}": stretch.until}
        pieces.append(statement("piece", tier=stretch.tier, number=str(number), columns="rtt_sketch"))
    _, rows = ask("rtt_sketch", {"pieces": "\nUNION ALL\n".join(pieces)}, **parameters)
    [low_ms, high_ms] = Sketches.of_bytes([rows[0][0]]).quantiles(TAILS, RTT_MS)[0].tolist()
    return (None, None) if low_ms != low_ms else (low_ms, high_ms)
