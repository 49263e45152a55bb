"""Agents behind a router that translates addresses: one that nothing reaches, and one to which two ports are forwarded.

The centre and the third agent are outside. All three are real agents, which fetch plans, measure and deliver; the
first enrols through the NAT.
"""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest
from django.core.management import call_command
from django.utils import timezone

from monitor.agents.enrolment import issue_code
from monitor.agents.models import issue_token
from monitor.archive.models import Burst, DirectionBurst, RefusedResult, ThroughputTest
from monitor.mesh.kinds.throughput import ThroughputSettings
from monitor.mesh.models import Path, Site, Slot
from monitor.mesh.schedule import on_demand, on_demand_pings
from monitor.mesh.schedule.on_demand_pings import PingsRefused
from probes.contract import Outcome
from tests.e2e.centre import GUNICORN, database_url, make_certificate
from tests.e2e.stack import TOP, wait_for
from tests.net.translating_router import HOME, OFFICE, OUTSIDE, translating_router

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
PATIENCE_S = 150
URL = f"https://{OUTSIDE}:8443"
SITE = """
[[site]]
name = "{name}"
latitude_deg = 1.0
longitude_deg = 2.0
country = "CH"
[[site.host]]
address = "{address}"
behind_nat = {behind_nat}
"""
TESTS = """
[[test]]
name = "pinger"
kind = "ping"
every_s = 10
count = 5
packet_bytes = [100]
spacing_s = 0.2
timeout_s = 1.0
[[test]]
name = "oneway"
kind = "stamp"
every_s = 10
count = 5
spacing_s = 0.2
timeout_s = 1.0
[[test]]
name = "tcp"
kind = "throughput"
every_s = 86400
duration_s = 1
[[group]]
name = "all"
shape = "star"
centres = ["outside"]
sites = ["home", "office"]
tests = ["pinger", "oneway", "tcp"]
"""
SITES = (("outside", OUTSIDE, "false"), ("home", HOME, "true"), ("office", OFFICE, "false"))
MESH = '[mesh]\nname = "NAT"\n' + "".join(SITE.format(name=n, address=a, behind_nat=b) for n, a, b in SITES) + TESTS


@contextmanager
def process(command, log, **variables):
    with log.open("ab") as output:
        running = subprocess.Popen(
            command, cwd=TOP, env={**os.environ, **variables}, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield running
    except BaseException:
        print(log.read_text()[-3000:])
        raise
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(timeout=60)


def start_script(name, data):
    """Starts the agent of a site; that of `home` enrols first."""
    agent, pk = f"{sys.executable} -m probes site", Site.objects.get(name=name).pk
    if name == "home":
        return f"{agent} join {URL} {issue_code(pk, timezone.now())} --data {data} && exec {agent} --data {data}"
    data.mkdir(mode=0o700)
    (data / "token").write_text(issue_token(pk, timezone.now()))
    (data / "token").chmod(0o600)
    return f"exec {agent} --centre {URL} --token-file {data}/token --data {data}"


@pytest.fixture
def network(namespaces_required):
    with translating_router() as network:
        yield network


@pytest.fixture
def sites(network, tmp_path, mesh):
    """The centre and the agents, each in its namespace."""
    with ExitStack() as running:
        log = tmp_path / "web.log"
        certificate, key = make_certificate(tmp_path, f"IP:{OUTSIDE}")
        files = ("--certfile", str(certificate), "--keyfile", str(key))
        server = network.command("outside", *GUNICORN, "--bind", f"{OUTSIDE}:8443", *files)
        settings = {"SOUNDINGS_DATABASE_URL": database_url(), "SOUNDINGS_ALLOWED_HOSTS": OUTSIDE}
        running.enter_context(process(server, log, **settings))
        wait_for(lambda: "Listening at" in log.read_text(), PATIENCE_S, "the centre listens")
        for name, _, _ in SITES:
            script = start_script(name, tmp_path / name)
            command = network.command(name, "sh", "-c", script)
            running.enter_context(process(command, tmp_path / f"{name}.log", SSL_CERT_FILE=str(certificate)))
        yield


@pytest.fixture
def mesh(tmp_path, db):
    file = tmp_path / "mesh.toml"
    file.write_text(MESH)
    call_command("mesh", "apply", str(file), verbosity=0)


def path(source, destination):
    return Path.objects.in_use().get(source__name=source, destination__name=destination)


def ask_test(source, destination):
    settings = ThroughputSettings(duration_s=1)
    return on_demand.ask(path(source, destination), settings, by="test", now=timezone.now()).pk


def answered(model):
    """The paths of which results with replies are stored."""
    rows = model.objects.filter(outcome=Outcome.MEASURED, received__gt=0).values_list("path_id", flat=True)
    return {str(Path.objects.get(pk=pk)) for pk in rows.distinct()}


def test_sites_behind_nat_measure_outwards_and_are_reached_where_ports_are_forwarded(sites):
    wanted = {"home → outside", "office → outside", "outside → office"}
    wait_for(lambda: answered(Burst) >= wanted, PATIENCE_S, "pings")
    slots = [ask_test("outside", "home"), ask_test("outside", "office")]
    wait_for(lambda: answered(DirectionBurst) >= wanted, PATIENCE_S, "STAMP")
    wait_for(
        lambda: not Slot.objects.filter(pk__in=slots, outcome=None).exists(), PATIENCE_S, "throughput tests have ended"
    )

    assert (answered(Burst), answered(DirectionBurst)) == (wanted, wanted)
    tests = ThroughputTest.objects.order_by("measured_at")
    assert list(Slot.objects.filter(pk__in=slots).values_list("outcome", "detail")) == [("measured", "")] * 2
    assert [row.path_id for row in tests] == [path("outside", "home").pk, path("outside", "office").pk]
    assert all(row.average_bps > 1e6 for row in tests)
    assert set(Burst.objects.filter(path_id=path("home", "outside").pk).values_list("source_address", flat=True)) == {
        "10.9.1.2"
    }
    assert not RefusedResult.objects.exists()
    with pytest.raises(PingsRefused, match="home is behind NAT"):
        on_demand_pings.ask(path("outside", "home"), by="test", now=timezone.now())
