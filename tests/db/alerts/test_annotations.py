"""Annotations of operators: on the page and by the API, with the figures of a path before and after."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from monitor.alerts.incidents.actions import ActionRefused, QuietScope
from monitor.alerts.incidents.annotations import annotate, annotations_of_path, remove
from monitor.alerts.models import Annotation, AuditRecord
from monitor.analysis.changes.before_after import Proof
from monitor.archive.models import BurstHour
from monitor.overview.annotations.compared import before_and_after
from monitor.overview.changes import PathChangeKind, changes_of
from tests.db.mesh_of_three import make_mesh

pytestmark = pytest.mark.django_db


def log_in(client, role):
    """Log in as a user of this role, who has its name."""
    user = User.objects.create_user(role, password="long and winding")
    user.groups.add(Group.objects.get(name=role))
    client.force_login(user)


@pytest.fixture
def mesh():
    return make_mesh()


def test_an_annotation_is_stored_once_and_marked_on_its_paths(mesh):
    now = timezone.now()
    at, since = now - timedelta(hours=2), now - timedelta(days=1)
    for _ in range(2):
        annotate(QuietScope(site=mesh.cern), at, "port replaced", "eva", now)
    annotate(QuietScope(path=mesh.slac_anl), at, "patch", "eva", now)

    assert [note.text for note in annotations_of_path(mesh.slac_cern.pk, since, now)] == ["port replaced"]
    assert [note.text for note in annotations_of_path(mesh.slac_anl.pk, since, now)] == ["patch"]
    [change] = [
        change
        for change in changes_of(mesh.slac_cern.pk, 100, since, now, ())
        if change.kind is PathChangeKind.ANNOTATION
    ]
    assert (change.at, change.text) == (at, "port replaced (eva)")
    assert AuditRecord.objects.filter(what__startswith="annotated cern").count() == 1


def test_a_removed_annotation_is_shown_nowhere_and_audited_once(mesh):
    now = timezone.now()
    note = annotate(QuietScope(), now - timedelta(hours=1), "core router", "eva", now)
    for _ in range(2):
        remove(note.pk, "ole", now)

    assert annotations_of_path(mesh.slac_cern.pk, now - timedelta(days=1), now) == []
    assert AuditRecord.objects.filter(what=f"removed annotation {note.pk}").count() == 1
    with pytest.raises(ActionRefused, match="no annotation"):
        remove(note.pk + 1, "ole", now)


@pytest.mark.parametrize("days", [1, -4000])
def test_a_change_of_the_future_or_long_ago_is_refused(mesh, days):
    now = timezone.now()

    with pytest.raises(ActionRefused):
        annotate(QuietScope(), now + timedelta(days=days), "patch", "eva", now)


def test_the_api_makes_lists_and_removes_for_operators_only(mesh, client):
    host, at = {"host": "localhost"}, (timezone.now() - timedelta(hours=3)).isoformat()
    body = {"path_id": mesh.slac_cern.pk, "at": at, "text": "patch"}
    log_in(client, "viewer")
    assert client.post("/api/v1/annotations", body, "application/json", headers=host).status_code == 403
    log_in(client, "operator")
    made = client.post("/api/v1/annotations", body, "application/json", headers=host).json()
    [listed] = client.get(f"/api/v1/paths/{mesh.slac_cern.pk}/annotations", headers=host).json()

    assert (listed["id"], listed["text"], listed["made_by"]) == (made["id"], "patch", "operator")
    assert {compared["proof"] for compared in listed["comparisons"]} == {Proof.CANNOT_TELL}
    assert client.delete(f"/api/v1/annotations/{made['id']}", headers=host).json()["removed_at"] is not None
    assert client.get(f"/api/v1/paths/{mesh.slac_cern.pk}/annotations", headers=host).json() == []


def test_the_page_adds_and_removes_an_annotation(mesh, client):
    host, path_id = {"host": "localhost"}, mesh.slac_cern.pk
    log_in(client, "operator")
    at = f"{timezone.now() - timedelta(hours=3):%Y-%m-%dT%H:%M}"
    form = {"at": at, "zone": "UTC", "scope": "site:cern", "text": "port <replaced>"}
    assert client.post(f"/paths/{path_id}/annotate/", form, headers=host).status_code == 302
    [note] = Annotation.objects.all()
    page = client.get(f"/paths/{path_id}/?tab=changes", headers=host).content.decode()

    assert note.site_id == mesh.cern.pk
    assert "port &lt;replaced&gt;" in page
    assert "cannot tell" in page
    assert client.post(f"/paths/{path_id}/annotations/{note.pk}/remove/", headers=host).status_code == 302
    assert "port &lt;replaced&gt;" not in client.get(f"/paths/{path_id}/?tab=changes", headers=host).content.decode()


def plant_step(path_id, at, now, after_ms):
    """A week of hours at 50 ms, and then others at `after_ms`."""
    hours = [now - timedelta(hours=hour) for hour in range(1, 24 * 9)]
    rows = [(hour, (after_ms if hour > at else 50.0) + 0.1 * (hour.hour % 5)) for hour in hours]
    counts = {"bursts": 60, "bursts_all_lost": 0, "bursts_none_lost": 60, "bursts_during_test": 0}
    counts |= {"bursts_not_measured": 0, "sent": 600, "received": 600, "duplicates": 0, "reordered": 0}
    BurstHour.objects.bulk_create(
        BurstHour(path_id=path_id, packet_bytes=100, hour=hour, rtt_median_ms=rtt_ms, **counts) for hour, rtt_ms in rows
    )


def test_a_planted_step_of_the_rtt_is_proven_from_stored_hours(mesh):
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    at = now - timedelta(days=2, minutes=30)
    plant_step(mesh.slac_cern.pk, at, now, 60.0)
    rtt, loss, throughput = before_and_after(mesh.slac_cern.pk, 100, at, now)

    assert (rtt.proof, rtt.after - rtt.before) == (Proof.PROVEN, pytest.approx(10, abs=0.2))
    assert (loss.proof, throughput.proof) == (Proof.NOT_PROVEN, Proof.CANNOT_TELL)


def test_the_page_of_a_site_has_the_verdict_on_its_paths(mesh, client):
    """Slower to one site, as before to the other; the annotation of a path of others is not shown."""
    host, now = {"host": "localhost"}, timezone.now().replace(minute=0, second=0, microsecond=0)
    at = now - timedelta(days=2, minutes=30)
    plant_step(mesh.slac_cern.pk, at, now, 60.0)
    plant_step(mesh.slac_anl.pk, at, now, 50.0)
    annotate(QuietScope(site=mesh.slac_cern.source.site), at, "new <firewall>", "eva", now)
    annotate(QuietScope(path=mesh.slac_anl), at, "fibre moved", "eva", now)
    of_site, of_path = client.get("/sites/slac/?size=100", headers=host), client.get("/sites/cern/", headers=host)
    html = of_site.content.decode()

    assert "new &lt;firewall&gt;" in html
    assert re.search(r"RTT: higher on 1 of \d+ paths, proven; no proven change on 1", html)
    assert "fibre moved" in html
    assert "fibre moved" not in of_path.content.decode()
    assert "Add annotation" not in html


def test_the_page_of_a_site_adds_and_removes_an_annotation(mesh, client):
    host = {"host": "localhost"}
    log_in(client, "operator")
    form = {"at": f"{timezone.now() - timedelta(hours=3):%Y-%m-%dT%H:%M}", "zone": "UTC", "text": "router replaced"}
    assert client.post("/sites/cern/annotate/", form, headers=host).status_code == 302
    [note] = Annotation.objects.all()
    html = client.get("/sites/cern/", headers=host).content.decode()

    assert (note.site_id, note.text) == (mesh.cern.pk, "router replaced")
    assert "router replaced" in html
    assert "Add annotation" in html
    assert client.post("/sites/atlantis/annotate/", form, headers=host).status_code == 422
    assert client.post("/sites/cern/annotate/", form | {"text": ""}, headers=host).status_code == 422
    assert client.post(f"/sites/cern/annotations/{note.pk}/remove/", headers=host).status_code == 302
    assert "router replaced" not in client.get("/sites/cern/", headers=host).content.decode()
