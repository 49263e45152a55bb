"""The stated interval of the end of an outage holds the truth at its stated rate: planted outages, with the packets of
a cycle in bursts and at even spacing."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import numpy as np
import pytest

from monitor.alerts.detect.packet_times import Spacing
from monitor.alerts.detect.rules.finding import LOSSY, BadBursts
from monitor.alerts.evidence import episode
from monitor.archive.queries.around import BurstColumns

PATH, PACKETS = 7, 10
ORIGIN_S = datetime(2026, 11, 21, 14, 0, tzinfo=UTC).timestamp()
OUTAGES = 200
ALL_LOST = BadBursts("bursts without a reply", lambda bursts: bursts.received == 0)


def _sent_s(pattern: str, every_s: float, random: np.random.Generator, cycles: int) -> np.ndarray:
    """When each packet is sent, of shape (cycles, packets): 0.7 s apart, or spread over the cycle as agents do."""
    begins_s = ORIGIN_S + random.uniform(0, every_s) + every_s * np.arange(cycles)[:, np.newaxis]
    if pattern == "burst":
        return begins_s + 0.7 * np.arange(PACKETS)
    return begins_s + every_s / PACKETS * (np.arange(PACKETS) + random.random((cycles, PACKETS)) / 3.0)


def _bursts(sent_s: np.ndarray, rtts_ms: np.ndarray) -> BurstColumns:
    lost = np.isnan(rtts_ms)
    columns = {field.name: np.zeros(len(sent_s)) for field in fields(BurstColumns)}
    return BurstColumns(
        **columns | {
            "path_id": np.full(len(sent_s), float(PATH)), "at_s": sent_s[:, 0],
            "packet_bytes": np.full(len(sent_s), 100.0),
            "sent": np.full(len(sent_s), float(PACKETS)), "received": PACKETS - lost.sum(axis=1).astype(float),
            "rtts_ms": rtts_ms,
        }
    )  # fmt: skip


@pytest.mark.parametrize("by", [LOSSY, ALL_LOST], ids=["loss", "unreachable"])
@pytest.mark.parametrize(("pattern", "every_s"), [("burst", 10.0), ("burst", 60.0), ("even", 10.0), ("even", 60.0)])
def test_the_interval_of_an_outage_holds_its_end(pattern, every_s, by):
    random = np.random.default_rng([int(every_s), len(pattern), len(by.words)])
    even_s = every_s / PACKETS
    spacing = Spacing(0.7, 0.7, 0.0, PACKETS) if pattern == "burst" else Spacing(even_s, even_s, even_s / 3.0, PACKETS)
    holds_end = 0
    for _ in range(OUTAGES):
        sent_s = _sent_s(pattern, every_s, random, cycles=80)
        began_s = ORIGIN_S + every_s * random.uniform(40, 50)
        ended_s = began_s + every_s * random.uniform(4, 12)
        rtt_s = random.uniform(0.001, 0.3)
        there_s = sent_s + rtt_s * random.random()  # at the place of the outage, there and back
        back_s = 2.0 * sent_s + rtt_s - there_s
        lost = (np.maximum(there_s, back_s) >= began_s) & (np.minimum(there_s, back_s) < ended_s)
        lost |= random.random(lost.shape) < 2e-4
        bursts = _bursts(sent_s, np.where(lost, np.nan, 1e3 * rtt_s))
        begun = _time(bursts.at_s[bursts.at_s <= began_s].max())

        last_bad = episode.find_end(bursts, PATH, begun, by, {})
        end = episode.find_outage_end(bursts, PATH, last_bad, spacing)

        holds_end += end is not None and end.earliest_s <= ended_s <= end.latest_s

    assert holds_end >= 0.95 * OUTAGES


def test_a_packet_lost_by_chance_is_no_end_of_a_short_outage():
    """Outages of 25 s, some with a single cycle lost as a whole; another packet is lost up to 90 s later."""
    random = np.random.default_rng(25)
    for _ in range(OUTAGES):
        sent_s = _sent_s("even", 10.0, random, cycles=80)
        began_s = ORIGIN_S + random.uniform(400.0, 500.0)
        stray_s = began_s + 25.0 + random.uniform(20.0, 90.0)
        lost = (sent_s >= began_s) & (sent_s < began_s + 25.0)
        lost |= sent_s == sent_s[sent_s >= stray_s].min()

        end = episode.find_end(_bursts(sent_s, np.where(lost, np.nan, 20.0)), PATH, _time(began_s - 10.0), LOSSY, {})

        last_s = sent_s[(sent_s < began_s + 25.0).any(axis=1)][-1][0]
        assert end == _time(last_s), (began_s, stray_s)


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(float(at_s), UTC)
