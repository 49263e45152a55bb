"""An alert rule is a module, an entry in the catalogue, and a line of docs: a toy rule needs nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerts.closing import SWITCHED_OFF
from monitor.alerts.detect.causes import trouble_of
from monitor.alerts.detect.rules import catalogue
from monitor.alerts.detect.rules.finding import Trouble
from monitor.alerts.evaluate import evaluate
from monitor.alerts.evidence.evidence import evidence
from monitor.alerts.evidence.gather import gather_due
from monitor.alerts.evidence.words import headline
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import Incident
from monitor.alerts.scope import scope_now
from monitor.mesh.document import alert_rules, structure
from monitor.mesh.document.reader import MeshError, parse
from monitor.mesh.models import KindName, Measurement, Test
from scripts import reference
from tests.db.alert_rows import make_bursts, make_mesh
from tests.toy_rule import FewBursts, FewTests

NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
MESH = """
[mesh]
name = "toy"
[[site]]
name = "here"
latitude_deg = 0
longitude_deg = 0
country = "CH"
host = [{ address = "192.0.2.1" }]
[[site]]
name = "there"
latitude_deg = 0
longitude_deg = 0
country = "CH"
host = [{ address = "192.0.2.2" }]
[[test]]
name = "pinger"
kind = "ping"
every_s = 60
[[group]]
name = "all"
shape = "mesh"
sites = ["here", "there"]
tests = ["pinger"]
"""


@pytest.fixture(autouse=True)
def toy_rule(monkeypatch):
    """The entry in the catalogue; the application calls `register` when it starts."""
    monkeypatch.setattr(lifecycle, "CONFIRM_S", 0)
    monkeypatch.setitem(catalogue.RULES, FewBursts.name, FewBursts())
    monkeypatch.setitem(alert_rules.RULES, FewBursts.name, None)
    catalogue.register()


def read_alerts(text):
    return parse((MESH + text).encode(), "mesh.toml").alerts


def test_mesh_toml_has_the_keys_of_a_toy_rule():
    assert read_alerts("[alerts.few_bursts]\nleast_bursts = 10\n") == {"few_bursts": {"least_bursts": 10}}
    with pytest.raises(MeshError, match="least_bursts"):
        read_alerts("[alerts.few_bursts]\nleast_bursts = 0\n")
    with pytest.raises(MeshError, match="least_burst"):
        read_alerts("[alerts.few_bursts]\nleast_burst = 10\n")


def test_the_reference_has_the_keys_of_a_toy_rule():
    tables = reference.tables_of(structure.file_struct())
    (table,) = (table for table in tables if table.header == "[alerts.few_bursts]")

    keys = {key.name: key for key in table.keys}
    assert (keys["least_bursts"].default, keys["severity"].default) == (30, "critical")
    assert reference.meaning(table, keys["least_bursts"]) == "Bursts within an hour below which an incident opens."


@pytest.mark.django_db
def test_a_toy_rule_opens_incidents_with_its_words_and_cause():
    paths = make_mesh(["slac", "cern"], NOW - timedelta(days=30), few_bursts={"least_bursts": 5})
    make_bursts(paths["slac → cern"], [0] * 2, NOW - timedelta(minutes=10))
    make_bursts(paths["cern → slac"], [0] * 8, NOW - timedelta(minutes=10))

    assert evaluate(NOW).opened == 1
    gather_due(NOW)

    incident = Incident.objects.get()
    assert (incident.rule, incident.severity, incident.cause) == ("few_bursts", "critical", "cern ↔ slac")
    assert headline(incident).startswith("cern ↔ slac: few bursts")
    assert evidence(incident, NOW).likely == FewBursts.usual_cause


@pytest.mark.django_db
def test_an_incident_of_a_removed_rule_ends_under_its_name(monkeypatch):
    paths = make_mesh(["slac", "cern"], NOW - timedelta(days=30), few_bursts={"least_bursts": 5})
    make_bursts(paths["slac → cern"], [0] * 2, NOW - timedelta(minutes=10))
    make_bursts(paths["cern → slac"], [0] * 8, NOW - timedelta(minutes=10))
    evaluate(NOW)
    monkeypatch.delitem(catalogue.RULES, FewBursts.name)

    evaluate(NOW + timedelta(minutes=1))

    incident = Incident.objects.get()
    assert SWITCHED_OFF in incident.closing
    assert headline(incident).startswith("cern ↔ slac: few_bursts")


@pytest.mark.django_db
def test_a_rule_about_throughput_evaluates_the_paths_with_tests(monkeypatch):
    monkeypatch.setitem(catalogue.RULES, FewTests.name, FewTests())
    monkeypatch.setitem(alert_rules.RULES, FewTests.name, FewTests.settings)
    paths = make_mesh(["slac", "cern"], NOW - timedelta(days=30), few_bursts={}, few_tests={})
    test = Test.objects.create(name="tcp", kind=KindName.THROUGHPUT, every_s=3600)
    Measurement.objects.create(path=paths["slac → cern"], test=test, started_at=NOW)

    scope = scope_now()

    assert scope.settings["few_tests"].keys() == {paths["slac → cern"].pk}
    assert scope.settings["few_bursts"].keys() == {path.pk for path in paths.values()}
    assert (trouble_of("few_tests"), trouble_of("few_bursts")) == (Trouble.THROUGHPUT, Trouble.ROUND_TRIPS)
