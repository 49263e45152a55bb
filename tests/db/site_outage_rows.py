"""An outage of a site as the lab has it: eight of twenty paths, even cycles of two sizes, throughput tests during which
packets are apart, and a packet lost by chance after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from monitor.agents.models import AgentHealth
from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.archive.models import Burst
from monitor.mesh.models import MeasurementPeriod, Site, Test
from tests.db.alert_rows import make_mesh
from tests.db.copied_rows import copy_rows

DOWN = datetime(2026, 11, 26, 5, 35, 27, tzinfo=UTC)
SITES = ("slac", "nersc", "ornl", "cern", "in2p3")
RTT_MS = {"slac": 175.0, "cern": 8.0, "ornl": 124.0, "nersc": 178.0}
"""To in2p3."""
CYCLE = timedelta(seconds=10)
DELIVERED = timedelta(seconds=12.5)
"""After the begin of a cycle: its packets, and their timeout."""
HISTORY_S = 1500


@dataclass(frozen=True)
class SiteOutage:
    """An outage of in2p3 from DOWN to `up`, and on in2p3 → slac a packet lost at `stray_at`. `is_tested` tells which
    packets of the paths of in2p3, by the name of the path, were sent during a throughput test."""

    up: datetime
    is_tested: Callable[[str, datetime], bool]
    stray_at: datetime | None = None

    def is_lost(self, name: str, size: int, at: datetime) -> bool:
        """Requests sent while in2p3 is down; and a single one on a path later."""
        is_stray = (
            self.stray_at is not None
            and name == "in2p3 → slac"
            and size == 100
            and self.stray_at <= at < self.stray_at + timedelta(seconds=0.9)
        )
        return DOWN <= at < self.up or is_stray

    def plant(self, until_s: int) -> list[tuple[datetime, Burst]]:
        """The bursts with the time at which each arrives."""
        random = np.random.default_rng(3)
        rules = {"loss": {"above_ratio": 0.01, "window_s": 120}, "unreachable": {}, "no_data": {}, "rtt": {}}
        paths = make_mesh(SITES, DOWN - timedelta(hours=2), **rules)
        parameters = {"count": 10, "packet_bytes": [100, 1000], "spacing_s": 0.5, "pattern": "even"}
        Test.objects.update(every_s=10, parameters=parameters)
        MeasurementPeriod.objects.update(every_s=10, packet_bytes=[100, 1000])
        rows = []
        for name, path in paths.items():
            ends = name.split(" → ")
            first = DOWN - timedelta(seconds=HISTORY_S + 5 - 0.2 * SITES.index(ends[0]))
            phase, is_planted = random.random(), "in2p3" in ends
            other = next((end for end in ends if end in RTT_MS), "")
            for cycle in range((HISTORY_S + until_s) // 10):
                begin = first + cycle * CYCLE
                due_s = (np.arange(20) + phase + random.random(20) / 3.0) * 0.5
                for number, size in enumerate((100, 1000)):
                    sent_at = [begin + timedelta(seconds=at_s) for at_s in due_s[number::2].tolist()]
                    rtts = [
                        None
                        if is_planted and self.is_lost(name, size, at)
                        else RTT_MS.get(other, 50.0) + random.exponential()
                        for at in sent_at
                    ]
                    is_loaded = [is_planted and self.is_tested(name, at) for at in sent_at]
                    rows.append((begin + DELIVERED, burst_of(path, size, sent_at, rtts, is_loaded)))
        return sorted(rows, key=lambda row: row[0])


def burst_of(path, size, sent_at, rtts, is_loaded):
    """Packets sent during the throughput test are apart, as agents tell them."""
    is_loaded = [False] * len(rtts) if all(is_loaded) else is_loaded
    own = [rtt for rtt, loaded in zip(rtts, is_loaded, strict=True) if not loaded]
    received = sum(rtt is not None for rtt in own)
    return Burst(
        path_id=path.pk, packet_bytes=size, measured_at=sent_at[0], outcome="measured", sent=len(own),
        received=received, duplicates=0, reordered=0, during_test=False, ttl=54 if received else None, rtts_ms=own,
        loaded_rtts_ms=[rtt for rtt, loaded in zip(rtts, is_loaded, strict=True) if loaded] or None,
    )  # fmt: skip


def evaluate_at(rows: Sequence[tuple[datetime, Burst]], times_s: Sequence[int]):
    """Evaluate the rules so many seconds after DOWN, each time with the bursts that have arrived by then, and gather
    evidence 3 s later; yields the seconds and that time."""
    number = 0
    for at_s in times_s:
        now = DOWN + timedelta(seconds=at_s)
        arrived = [burst for arrives_at, burst in rows[number:] if arrives_at < now]
        number += len(arrived)
        copy_rows(arrived)
        for site in Site.objects.all():
            reported = {"accepted_at": now - timedelta(seconds=5), "agent_version": "1", "queued": 0, "dropped": 0}
            AgentHealth.objects.update_or_create(site=site, defaults=reported)
        evaluate(now)
        at = now + timedelta(seconds=3)
        gather.gather_due(at)
        yield at_s, at
