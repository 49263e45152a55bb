"""Simulated agents that measure once a second and deliver with the agents' own spool and delivery. A test can have all
packets of a path lost."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from probes.contract import Outcome
from probes.packets.spec import Burst
from probes.site import identity
from probes.site.delivery.centre import Centre
from probes.site.delivery.deliver import DeliveryLoop
from probes.site.spool.spool import Spool
from probes.site.wire import Batch, Delivered, Receipt
from tests.spools import count_queued

EVERY_S = 1.0


class NotingCentre(Centre):
    """Notes the time of each receipt."""

    def __init__(self, accepted_s: list[float], url: str, token_file: Path, further_urls: list[str], who: str) -> None:
        super().__init__(url, token_file, further_urls=further_urls, identity=who, timeout_s=15.0)
        self._accepted_s = accepted_s

    def deliver(self, batch: Batch) -> Receipt:
        receipt = super().deliver(batch)
        if batch.results:
            self._accepted_s.append(time.monotonic())
        return receipt


class Agents:
    """One thread each. `accepted_s` are the times at which a delivery of any of them was accepted; `cut` are the paths
    whose packets are all lost."""

    def __init__(self, folder: Path, urls: list[str], path_ids: dict[str, int]) -> None:
        self.accepted_s: list[float] = []
        self.cut: set[int] = set()
        self.spooled: list[tuple[int, datetime]] = []
        self._measures = True
        self._end = threading.Event()
        self._spools = {site: Spool(folder / f"{site}.sqlite3") for site in path_ids}
        self._threads = [
            threading.Thread(target=self._run, args=(folder, urls, site, path_id)) for site, path_id in path_ids.items()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def queued(self) -> int:
        """Results that are not acknowledged; no more are measured from now on."""
        self._measures = False
        return sum(map(count_queued, self._spools.values()))

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def _run(self, folder: Path, urls: list[str], site: str, path_id: int) -> None:
        who = str(identity.begin(folder / f"{site}.identity.json"))
        centre = NotingCentre(self.accepted_s, urls[0], folder / site / "token", urls[1:], who)
        spool = self._spools[site]
        delivery = DeliveryLoop(spool, centre)
        while not self._end.wait(EVERY_S):
            if self._measures:
                at = datetime.now(UTC)
                burst = _burst(at, is_lost=path_id in self.cut)
                spool.put([Delivered(sequence=0, path_id=path_id, test="pinger", result=burst)])
                self.spooled.append((path_id, at))
            delivery.run()


def _burst(at: datetime, *, is_lost: bool) -> Burst:
    return Burst(
        target="beacon",
        address="192.0.2.1",
        family=4,
        packet_bytes=100,
        started_at=at,
        outcome=Outcome.MEASURED,
        sent=2,
        received=0 if is_lost else 2,
        rtts_ms=(None, None) if is_lost else (10.5, 10.25),
        ttl=None if is_lost else 57,
        stamp="kernel",
    )
