"""Forecast a path's next throughput test from tests of the eight weeks before (`monitor.analysis.tcp.forecasts`),
reading no later data."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from monitor.analysis.changes.newest_stretch import newest_run, present_stretch
from monitor.analysis.loss import is_outage
from monitor.analysis.tcp import Forecast, PastTest, PathPings, Rtt, TransferKind, forecast, replayed
from monitor.analysis.tcp.forecasts import is_other_rtt
from monitor.archive.queries.throughput.calibrations import LOOKBACK
from monitor.archive.statements import run_statement
from monitor.mesh.document.entries import ON_DEMAND

# RTT percentiles; the 80% interval lies between them.
TAILS = (0.1, 0.9)
# Newest bursts, with the present RTT as their median.
NOW_BURSTS = 5
# Enough for the errors of fifty forecasts.
MOST_TESTS = 60

# Forecast, low and high end of its interval, and the test, in bit/s.
Replayed = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class UnansweredPings:
    """Outage at `until`: no ping answered since `since` in the half hour."""

    since: datetime
    until: datetime


def path_forecast(
    path_id: int, packet_bytes: int, until: datetime, sender: str | None, kind: TransferKind
) -> Forecast | None:
    """Forecast a test at `until`; None without tests of this kind."""
    _, rows = run_statement(
        "tests_of_kind",
        path_id=path_id,
        since=until - LOOKBACK,
        until=until,
        on_demand=ON_DEMAND,
        congestion_control=sender,
        streams=kind.streams,
        most=MOST_TESTS,
    )
    if not rows:
        return None
    tests = list(reversed(rows))
    *states, now = _states(path_id, packet_bytes, [*(at for at, _ in tests), until])
    past = [PastTest(at, rate_bps, state) for (at, rate_bps), state in zip(tests, states, strict=True)]
    return forecast(past, now, kind)


def forecasts_of_tests(path_ids: Sequence[int], since: datetime, until: datetime) -> list[Replayed]:
    """Tests in the period with forecasts from earlier tests, without pings; of each path the newest `MOST_TESTS` are
    read."""
    _, rows = run_statement(
        "newest_tcp_tests",
        path_ids=list(path_ids),
        since=since - LOOKBACK,
        until=until,
        on_demand=ON_DEMAND,
        most=MOST_TESTS,
    )
    kinds: dict[tuple[int, str | None, int], list[PastTest]] = defaultdict(list)
    for path_id, sender, streams, at, throughput_bps in rows:
        kinds[path_id, sender, streams].append(PastTest(at, throughput_bps))
    return [
        (*made, test.throughput_bps)
        for tests in kinds.values()
        for made, test in zip(replayed(tests, TransferKind()), tests[1:], strict=True)
        if test.at >= since
    ]


def present_pings(path_id: int, packet_bytes: int, until: datetime) -> tuple[PathPings, Rtt] | UnansweredPings | None:
    """Pings and RTT of the half hour before `until`, since the last loss or RTT change; None without pings."""
    _, rows = run_statement("states_before", path_id=path_id, packet_bytes=packet_bytes, moments=[until])
    at_s, sent, received, rtts_ms, ttls = rows[0][:5]
    if at_s is None:
        return None
    since_s = _unanswered_since(at_s, sent, received)
    if since_s is not None:
        return UnansweredPings(datetime.fromtimestamp(since_s, UTC), until)
    now = _present(at_s, sent, received, rtts_ms, ttls)
    known_ms = [
        rtt_ms for begin_s, rtt_ms in zip(at_s, rtts_ms, strict=True) if rtt_ms is not None and _is_of(now, begin_s)
    ]
    if now.rtt_ms is None or not known_ms:
        return None
    low_ms, high_ms = np.quantile(known_ms, TAILS).tolist()
    return now, Rtt(now.rtt_ms, min(low_ms, now.rtt_ms), max(high_ms, now.rtt_ms))


def _unanswered_since(at_s: list[float], sent: list[float], received: list[float]) -> float | None:
    """Begin of the final unanswered bursts; None where chance explains the loss."""
    first = len(at_s)
    while first and not received[first - 1]:
        first -= 1
    return at_s[first] if is_outage(sum(sent), sum(received), sum(sent[first:])) else None


def _is_of(now: PathPings, begin_s: float) -> bool:
    return now.since is not None and datetime.fromtimestamp(begin_s, UTC) >= now.since


def _states(path_id: int, packet_bytes: int, moments: Sequence[datetime]) -> list[PathPings]:
    """Pings before each moment, as for `present_pings`; hourly summaries replace old bursts."""
    _, rows = run_statement("states_before", path_id=path_id, packet_bytes=packet_bytes, moments=list(moments))
    *earlier, (at_s, *columns, rtt_ms, _, _) = rows
    now = PathPings(rtt_ms) if at_s is None else _present(at_s, *columns)
    return [
        *(
            PathPings(rtt_ms, lost, sent) if at_s is None else _present(at_s, *of)
            for at_s, *of, rtt_ms, lost, sent in earlier
        ),
        now,
    ]


def _present(
    at_s: list[float],
    sent: list[float],
    received: list[float],
    rtts_ms: list[float | None],
    ttls: list[int | None],
) -> PathPings:
    first = max(present_stretch(sent, received), _first_of_rtt(rtts_ms))
    known_ms = [rtt_ms for rtt_ms in rtts_ms[first:] if rtt_ms is not None]
    ttl = [ttl for ttl in ttls[first:] if ttl is not None]
    packets = round(sum(sent[first:]))
    return PathPings(
        statistics.median(known_ms) if known_ms else None,
        packets - round(sum(received[first:])),
        packets,
        statistics.mode(ttl) if ttl else None,
        datetime.fromtimestamp(at_s[first], UTC),
        is_since_change=first > 0,
    )


def _first_of_rtt(rtts_ms: Sequence[float | None]) -> int:
    values_ms = np.array(rtts_ms, dtype=np.float64)
    answered = np.flatnonzero(~np.isnan(values_ms))
    known_ms = values_ms[answered]
    newest_ms = float(np.median(known_ms[-NOW_BURSTS:])) if len(known_ms) else 0.0
    others_ms = known_ms[is_other_rtt(known_ms, newest_ms)]
    if len(others_ms) < NOW_BURSTS:
        return 0
    is_as_newest = np.abs(known_ms - newest_ms) < np.abs(known_ms - np.median(others_ms))
    return int(answered[newest_run(is_as_newest)])
