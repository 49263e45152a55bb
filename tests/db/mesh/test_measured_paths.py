"""The measured paths of a mesh, of which a large one has 100,000: what they have in common is kept once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from monitor.mesh.models import KindName
from monitor.mesh.queries import measured_paths
from tests.db.alert_rows import make_mesh

pytestmark = pytest.mark.django_db


def test_equal_values_of_paths_are_one_object():
    make_mesh(["slac", "ornl", "fnal"], datetime(2026, 11, 1, tzinfo=UTC))

    paths = measured_paths(KindName.PING).values()

    assert len(paths) == 6
    values = [
        value
        for path in paths
        for value in (path.source, path.destination, path.place.source, path.place.groups, path.started_at)
    ]
    assert len(set(map(id, values))) == len(set(values))
