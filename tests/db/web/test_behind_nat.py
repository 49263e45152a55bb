"""Pages of a site behind NAT: its inward paths are said to be unmeasured for that reason."""

from datetime import UTC, datetime
from pathlib import Path as FilePath

import pytest

from monitor.mesh.apply import apply
from monitor.mesh.document.reader import read
from monitor.mesh.models import Path
from monitor.mesh.schedule.on_demand import OnDemandError
from monitor.mesh.schedule.requests import ask_pings, ask_traces
from probes.trace.spec import TraceReason
from tests.facts import lacks

pytestmark = pytest.mark.django_db
MESH = FilePath(__file__).parents[2] / "fixtures" / "mesh" / "good" / "behind_nat.toml"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def inwards():
    apply(read(MESH), NOW)
    return Path.objects.in_use().get(source__name="slac", destination__name="cern")


def test_pages_give_the_reason_why_inward_paths_have_no_pings(inwards, client):
    for address in ("/sites/cern/", "/sites/slac/", f"/paths/{inwards.pk}/"):
        page = client.get(address, headers={"host": "localhost"})
        assert lacks(page.content.decode(), "behind NAT") == [], address


def test_nothing_is_sent_inwards_on_demand(inwards):
    with pytest.raises(OnDemandError, match="cern is behind NAT"):
        ask_pings(inwards, by="ann", now=NOW)

    outwards = Path.objects.in_use().get(source__name="cern", destination__name="slac")
    assert [run.path for run in ask_pings(outwards, by="ann", now=NOW).runs.all()] == [outwards]
    assert [run.path for run in ask_traces([outwards], TraceReason.ON_DEMAND, by="ann", now=NOW)] == [outwards]
