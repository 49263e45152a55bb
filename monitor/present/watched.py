"""The paths with pings or equivalent tests, as their tracks need them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from monitor.archive.queries.for_alerts import DIRECTIONS
from monitor.archive.queries.present.lost_order import ONE_SIZE
from monitor.mesh.kinds import MESH_KINDS
from monitor.mesh.models import KindName, Measurement
from monitor.mesh.queries import sizes_sent
from monitor.present.followed_loss import Pings


@dataclass(frozen=True, slots=True)
class WatchedPath:
    pings: Pings
    started_s: float  # of the pings, in seconds since the epoch
    site_id: int  # of the measurement
    hosts: tuple[int, int]


def watched_paths() -> dict[int, WatchedPath]:
    """All paths in use with pings, by id: a query."""
    tests = Measurement.objects.filter(
        retired_at=None, path__retired_at=None, test__kind__in=KindName.PING.alternatives
    )
    columns = (
        "path_id", "test__kind", "test__every_s", "test__parameters", "started_at",
        "path__source__site_id", "path__source_id", "path__destination_id",
    )  # fmt: skip
    rows = defaultdict(list)
    for path_id, *of_test in tests.order_by("path_id", "test_id").values_list(*columns):
        rows[path_id].append(of_test)
    watched = {}
    for path_id, of_path in rows.items():
        own = [row for row in of_path if not MESH_KINDS[row[0]].stands_in_for_pings] or of_path
        started_s = min(row[3].timestamp() for row in own)
        watched[path_id] = WatchedPath(
            _pings([(row[1], row[2]) for row in own]), started_s, own[0][4], (own[0][5], own[0][6])
        )
    return watched


def watched_ways() -> dict[str, dict[int, WatchedPath]]:
    """The paths in use with STAMP tests, by way and id, without packet sizes: a query."""
    tests = Measurement.objects.filter(retired_at=None, path__retired_at=None, test__kind=KindName.STAMP)
    columns = ("path_id", "test__every_s", "started_at", "path__source__site_id", "path__source_id",
               "path__destination_id")  # fmt: skip
    watched: dict[int, WatchedPath] = {}
    for path_id, every_s, started_at, site_id, *hosts in tests.order_by("-test__every_s").values_list(*columns):
        # Without a spacing no chain goes on from a burst to the next: the order of these packets is not known.
        pings = Pings(float(every_s), 0.0, (ONE_SIZE,))
        watched[path_id] = WatchedPath(pings, started_at.timestamp(), site_id, (hosts[0], hosts[1]))
    return dict.fromkeys(DIRECTIONS, watched) if watched else {}


def _pings(tests: list[tuple[int, Mapping[str, Any]]]) -> Pings:
    sizes = {size for _, parameters in tests for size in sizes_sent(parameters.get("packet_bytes"))}
    spacings_s = []
    for _, parameters in tests:
        turns = len(sizes_sent(parameters.get("packet_bytes"))) if parameters.get("pattern") == "even" else 1
        spacings_s.append(turns * float(parameters.get("spacing_s", 1.0)))
    packets = max(int(parameters.get("count", 1)) for _, parameters in tests)
    return Pings(float(min(every_s for every_s, _ in tests)), min(spacings_s), tuple(sorted(sizes)), packets)
