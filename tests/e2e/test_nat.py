"""Agents behind a router that translates addresses: one that nothing reaches, one to which two ports are forwarded, and
one whose packets are translated twice, of which mesh.toml does not say so.

The centre and the last agent are outside. All are real agents, which fetch plans, measure and deliver; the first and
the third enrol through the NAT.
"""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from django.core.management import call_command
from django.utils import timezone

from monitor.agents.enrolment import issue_code
from monitor.agents.models import AgentHealth, issue_token
from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence import gather
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.incidents import queries
from monitor.alerts.models import Incident
from monitor.archive.models import Burst, DirectionBurst, RefusedResult, ThroughputTest
from monitor.mesh.kinds.throughput import ThroughputSettings
from monitor.mesh.models import Path, Site, Slot
from monitor.mesh.schedule import on_demand, requests
from monitor.mesh.schedule.on_demand import OnDemandError
from probes.contract import Outcome
from tests.e2e.centre import GUNICORN, database_url, make_certificate
from tests.e2e.stack import TOP, wait_for
from tests.facts import lacks
from tests.net.translating_router import CAFE, HOME, OFFICE, OUTSIDE, translating_router

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
PATIENCE_S = 150
URL = f"https://{OUTSIDE}:8443"
FIRST_REQUEST = f"""
import http.client, ssl
centre = http.client.HTTPSConnection("{OUTSIDE}", 8443, timeout={PATIENCE_S}, context=ssl._create_unverified_context())
centre.request("GET", "/login/")
assert centre.getresponse().status == 200
"""
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
[alerts.unreachable]
after_s = 15
[[test]]
name = "pinger"
kind = "ping"
every_s = 5
count = 5
packet_bytes = [100]
spacing_s = 0.2
timeout_s = 1.0
[[test]]
name = "oneway"
kind = "stamp"
every_s = 5
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
sites = ["home", "office", "cafe"]
tests = ["pinger", "oneway", "tcp"]
"""
SITES = (
    ("outside", OUTSIDE, "false"), ("home", HOME, "true"), ("office", OFFICE, "false"), ("cafe", CAFE, "false")
)  # fmt: skip
MESH = '[mesh]\nname = "NAT"\n' + "".join(SITE.format(name=n, address=a, behind_nat=b) for n, a, b in SITES) + TESTS


@contextmanager
def processes():
    """A function that starts a process with a log; all are stopped at once at the end."""
    started = []

    def start(command, log, **variables):
        with log.open("ab") as output:
            environment = {**os.environ, **variables}
            started.append(
                (subprocess.Popen(command, cwd=TOP, env=environment, stdout=output, stderr=subprocess.STDOUT), log)
            )

    try:
        yield start
    except BaseException:
        for _, log in started:
            print(log, log.read_text()[-3000:], sep="\n")
        raise
    finally:
        for process, _ in started:
            process.terminate()
        for process, _ in started:
            process.wait(timeout=60)


def start_script(name, data):
    """Start the agent of a site; those of `home` and `cafe` enrol first."""
    agent, pk = f"{sys.executable} -m probes site", Site.objects.get(name=name).pk
    if name in ("home", "cafe"):
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
    with processes() as start:
        log = tmp_path / "web.log"
        certificate, key = make_certificate(tmp_path, f"IP:{OUTSIDE}")
        files = ("--certfile", str(certificate), "--keyfile", str(key))
        server = network.command("outside", *GUNICORN, "--bind", f"{OUTSIDE}:8443", *files)
        start(server, log, SOUNDINGS_DATABASE_URL=database_url(), SOUNDINGS_ALLOWED_HOSTS=OUTSIDE)
        wait_for(lambda: "Listening at" in log.read_text(), PATIENCE_S, "the centre listens")
        network.at("outside", sys.executable, "-c", FIRST_REQUEST)  # takes seconds, for which no agent shall wait
        for name, _, _ in SITES:
            command = network.command(name, "sh", "-c", start_script(name, tmp_path / name))
            start(command, tmp_path / f"{name}.log", SSL_CERT_FILE=str(certificate))
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


def source_addresses(site):
    rows = Burst.objects.filter(path_id=path(site, "outside").pk)
    return set(rows.values_list("source_address", flat=True))


def cause_of_incident():
    """The likely cause of the incident of the path to the cafe, as its page states it; None while there is none."""
    now = timezone.now()
    evaluate(now)
    incident = Incident.objects.filter(paths__path_id=path("outside", "cafe").pk).first()
    if incident is None:
        return None
    gather.store_facts(queries.incident_with_paths(incident.pk), now)
    return evidence(queries.incident_with_paths(incident.pk), now).cause


def test_sites_behind_nat_measure_outwards_and_are_reached_where_ports_are_forwarded(sites):
    # The router answers the pings to the office.
    wanted = {"home → outside", "office → outside", "outside → office", "cafe → outside"}
    wait_for(lambda: AgentHealth.objects.count() == len(SITES), PATIENCE_S, "the agents deliver")
    slots = [ask_test("outside", "home"), ask_test("outside", "office")]
    wait_for(lambda: answered(Burst) >= wanted and answered(DirectionBurst) >= wanted, PATIENCE_S, "pings and STAMP")
    wait_for(
        lambda: not Slot.objects.filter(pk__in=slots, outcome=None).exists(), PATIENCE_S, "throughput tests have ended"
    )
    cause = wait_for(cause_of_incident, PATIENCE_S, "an incident of the path to the cafe")

    assert (answered(Burst), answered(DirectionBurst)) == (wanted, wanted)
    tests = ThroughputTest.objects.filter(slot_id__in=slots)  # beside one that may be due by the schedule
    assert list(Slot.objects.filter(pk__in=slots).values_list("outcome", "detail")) == [("measured", "")] * 2
    assert {row.path_id for row in tests} == {path("outside", "home").pk, path("outside", "office").pk}
    assert all(row.average_bps > 1e6 for row in tests)
    assert source_addresses("home") == {"10.9.1.2"}
    assert source_addresses("cafe") == {"10.9.3.2"}
    assert not RefusedResult.objects.exists()
    assert lacks(cause.sentence, f"No ping to {CAFE} was ever answered", "its own pings are", "NAT") == []
    assert lacks(cause.next_step, "behind_nat = true") == []
    with pytest.raises(OnDemandError, match="home is behind NAT"):
        requests.ask_pings(path("outside", "home"), by="test", now=timezone.now())
