"""Add the path's newest policer test (UDP trains, `probes.policer`) to a transfer's verdict, or the advice to run one:
TCP alone has too few losses on long paths."""

from __future__ import annotations

from dataclasses import replace

from monitor.analysis.figures import bit_rate, duration
from monitor.analysis.transfer.finding import (
    EvidenceFigure,
    TransferFinding,
    Verdict,
    loss_events_text,
    rate_figure,
    size_text,
)
from monitor.analysis.transfer.queues import DUPLICATES
from monitor.analysis.transfer.record import Recording, TrainsResult
from monitor.analysis.transfer.signs import Signs
from monitor.analysis.transfer.token_bucket import LEAST_GROUP

UNEXPLAINED = (Verdict.LOSS, Verdict.UNDETERMINED)
# Share of the policer's rate of a limited transfer; headers take 4%, the window's sawtooth the rest.
LEAST_OF_RATE, MOST_OF_RATE = 0.8, 1.15

# Minimum segments of the median loss event at that rate: independent losses have one.
LEAST_GROUP_AT_RATE = 2.0


def with_trains(finding: TransferFinding, signs: Signs, recording: Recording) -> TransferFinding:
    """The finding with the policer test's result, as its cause where grouped losses are unexplained; without a result,
    how to get one."""
    trains = recording.trains
    if finding.verdict is Verdict.POLICER:
        return finding if trains is None else replace(finding, sentence=f"{finding.sentence}; {_told(trains)}")
    if trains is not None and _explains(trains, finding, signs):
        return _by_trains(trains, signs)
    if finding.verdict not in UNEXPLAINED or not _drops_in_groups(signs, LEAST_GROUP):
        return finding
    more = _advice(recording) if trains is None else _told(trains)
    return replace(finding, sentence=f"{finding.sentence}; {more}")


def _by_trains(trains: TrainsResult, signs: Signs) -> TransferFinding:
    rate_bps = trains.sustained_bps or 0.0
    depth = "" if trains.burst_bytes is None else f" with a bucket of {size_text(trains.burst_bytes)}"
    return TransferFinding(
        Verdict.POLICER,
        f"policed at {bit_rate(rate_bps)}{depth}, by the policer test {duration(trains.age_s)} before; this test had"
        f" {bit_rate(signs.throughput_bps)} and {loss_events_text(signs)} of {signs.median_group:.0f} segments each",
        (
            EvidenceFigure("policer test's rate", rate_bps, "bit/s"),
            *(() if trains.burst_bytes is None else (EvidenceFigure("bucket depth", trains.burst_bytes, "B"),)),
            EvidenceFigure("age of the policer test", trains.age_s, "s"),
            rate_figure(signs),
            EvidenceFigure("loss events", signs.loss_events, "count"),
        ),
    )


def _drops_in_groups(signs: Signs, least: float) -> bool:
    return signs.loss_events > 0 and signs.median_group >= least and not signs.duplicate_ratio >= DUPLICATES


def _explains(trains: TrainsResult, finding: TransferFinding, signs: Signs) -> bool:
    """Whether the policer's rate explains losses of unknown or random cause."""
    if trains.verdict != "policer" or trains.sustained_bps is None:
        return False
    if finding.verdict not in (*UNEXPLAINED, Verdict.RANDOM_LOSS) or not _drops_in_groups(signs, LEAST_GROUP_AT_RATE):
        return False
    burst_bps = 8.0 * (trains.burst_bytes or 0.0) / signs.steady_s
    least_bps, most_bps = LEAST_OF_RATE * trains.sustained_bps, MOST_OF_RATE * trains.sustained_bps + burst_bps
    return least_bps <= signs.throughput_bps <= most_bps


def _told(trains: TrainsResult) -> str:
    rate = "" if trains.sustained_bps is None else f" of {bit_rate(trains.sustained_bps)}"
    burst = "" if trains.burst_bytes is None else f" and {size_text(trains.burst_bytes)}"
    kind = {"no_limit": "no limit", "policer": f"a policer{rate}{burst}", "shaper": f"a shaper{rate}{burst}"}
    return f"the policer test {duration(trains.age_s)} before found {kind.get(trains.verdict, f'a link{rate}')}"


def _advice(recording: Recording) -> str:
    source, destination = recording.ends or ("SOURCE", "DESTINATION")
    return (
        "a TCP test cannot tell a policer from a short queue here, a policer test (UDP trains) would:"
        f" at the destination python -m probes policer receive {source} --here {destination} --key FILE,"
        f" at the source python -m probes policer send {destination} --here {source} --key FILE"
    )
