"""The spacing of the packets of a path's bursts, by its tests."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from monitor.alerts.detect import packet_times
from monitor.mesh.models import KindName, Measurement
from monitor.mesh.models import Test as MeshTest
from tests.db.alert_rows import make_mesh

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


def test_stamp_packets_have_no_part_in_the_spacing_of_pings():
    """Only of a path without pings are they its bursts."""
    paths = make_mesh(["slac", "cern"], NOW)
    parameters = {"count": 10, "packet_bytes": [100, 1000], "spacing_s": 0.5, "pattern": "even"}
    MeshTest.objects.update(every_s=10, parameters=parameters)
    stamp = MeshTest.objects.create(
        name="oneway", kind=KindName.STAMP, every_s=10, parameters={"count": 20, "packet_bytes": 200, "spacing_s": 0.25}
    )
    for path in paths.values():
        Measurement.objects.create(path=path, test=stamp, started_at=NOW)
    both, stamp_only = paths["slac → cern"].pk, paths["cern → slac"].pk
    Measurement.objects.filter(path=stamp_only, test__kind=KindName.PING).update(retired_at=NOW)

    spacings = packet_times.spacings([both, stamp_only])

    assert (spacings[both].least_s, spacings[both].most_s, spacings[both].packets) == (1.0, 1.0, 10)
    assert (spacings[stamp_only].least_s, spacings[stamp_only].most_s, spacings[stamp_only].packets) == (0.25, 0.25, 20)
