"""TCP handshakes from mesh.toml to the stored burst, and what pages, API and reports call them."""

import socket
from datetime import UTC, datetime, timedelta

import pytest

from monitor.archive.models import Burst
from monitor.archive.queries.metrics import Metric
from monitor.mesh.models import KindName, MeasurementPeriod, Path, Site
from monitor.mesh.plan import plan_for
from monitor.mesh.queries import measured_by, measured_paths
from monitor.overview.grid import GridPeriod, load_grid
from probes.tcp_ping.kind import KIND
from tests.mesh_agents import agent_of_site, apply_file

MESH = """
[mesh]
name = "filtered"
[[site]]
name = "here"
latitude_deg = 0
longitude_deg = 0
country = "CH"
[[site.host]]
address = "127.0.0.1"
[[site]]
name = "shop"
latitude_deg = 0
longitude_deg = 0
country = "CH"
agent = false
[[site.host]]
address = "127.0.0.2"
[[test]]
name = "https"
kind = "tcp-ping"
every_s = 60
port = {port}
count = 3
spacing_s = 0.5
[[group]]
name = "all"
shape = "between"
from = ["here"]
to = ["shop"]
tests = ["https"]
"""
LIMITS = '[networks]\nallowed = ["127.0.0.0/24"]\n'


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.2", 0), backlog=16) as listening:
        yield listening


def apply_mesh(tmp_path, port):
    apply_file(tmp_path, MESH.format(port=port))
    return Path.objects.in_use().get()


@pytest.mark.django_db(transaction=True)
def test_handshakes_run_from_mesh_toml_to_their_burst(server, live_server, tmp_path):
    port = server.getsockname()[1]
    path = apply_mesh(tmp_path, port)
    agent = agent_of_site(tmp_path, live_server.url, LIMITS)
    agent.begin()
    assert agent.puller.run()
    (task,) = agent.plans.current().of(KIND)
    assert (task.test, task.spec.port, task.spec.targets[0].address) == ("https", port, "127.0.0.2")

    agent.cycle(KIND, "https")
    agent.delivery.run()

    burst = Burst.objects.get()
    assert (burst.path_id, burst.packet_bytes, burst.outcome) == (path.pk, 100, "measured")
    assert (burst.sent, burst.received, len(burst.rtts_ms)) == (3, 3, 3)
    assert measured_by([path.pk]) == {path.pk: f"TCP handshake to port {port}"}
    (cell,) = load_grid(Metric.LOSS, GridPeriod.NOW, datetime.now(UTC) + timedelta(seconds=1)).figures
    assert (cell.path_id, cell.sent, cell.received) == (path.pk, 3, 3)


@pytest.mark.django_db
def test_rules_pages_and_api_know_paths_without_pings(tmp_path, client):
    path = apply_mesh(tmp_path, 443)

    assert list(measured_paths(KindName.PING)) == [path.pk]
    page = client.get(f"/paths/{path.pk}/", headers={"host": "localhost"}).content.decode()
    assert "loss and RTT by TCP handshake to port 443" in page
    (listed,) = client.get("/api/v1/paths", headers={"host": "localhost"}).json()
    assert listed["measured_by"] == "TCP handshake to port 443"


@pytest.mark.django_db
def test_even_handshakes_are_spread_over_the_period(tmp_path):
    apply_file(tmp_path, MESH.format(port=443).replace("spacing_s = 0.5", 'pattern = "even"'))

    (task,) = plan_for(Site.objects.get(name="here"), datetime.now(UTC)).of(KIND)
    period = MeasurementPeriod.objects.get(ended_at=None)

    assert (task.spec.is_even, task.spec.count, task.spec.spacing_s) == (True, 3, 20.0)
    assert (period.every_s, period.pattern, list(period.packet_bytes)) == (60, "even", [100])
