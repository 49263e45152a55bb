"""Requests generated from the OpenAPI document, valid and invalid, to the real WSGI application: none may break it."""

from datetime import timedelta

import hypothesis
import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, Phase

from monitor.accounts.models import issue_user_token
from monitor.alerts.models import AuditRecord, Incident, QuietPeriod
from monitor.archive.ingest.store_batch import receive
from monitor.archive.rollup.recompute import roll_up
from monitor.wsgi import application
from tests.db.mesh_of_three import NOW, batch, burst, delivered, make_mesh
from tests.deliveries import arrival_of

BOUNDED = hypothesis.settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def described(transactional_db, settings):
    """The document as read by programs, and objects in the database to request."""
    settings.PUBLIC_READ = True
    mesh = make_mesh()
    bursts = [burst(1.5 + minute, None, at=NOW - timedelta(minutes=minute)) for minute in range(3)]
    results = [delivered(mesh.slac_cern, burst, sequence) for sequence, burst in enumerate(bursts, 1)]
    receive(mesh.slac.pk, arrival_of(batch(*results)), NOW)
    roll_up(NOW)
    Incident.objects.create(rule="loss", cause="cern", opened_at=NOW, summary="loss")
    for kind in QuietPeriod.Kind:
        QuietPeriod.objects.create(
            kind=kind, starts_at=NOW, ends_at=NOW + timedelta(days=9999), made_by="ann", made_at=NOW
        )
    # Takes a second to import, which every process that collects tests would pay.
    import schemathesis

    return schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application)


@pytest.fixture
def operator(described):
    """The headers of a program that may do everything in the API."""
    user = User.objects.create_user("robot")
    user.groups.add(Group.objects.get(name="operator"))
    token = issue_user_token(user.pk, "everything", NOW, may_operate=True)
    return {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}


@pytest.mark.parametrize("requests", ["valid", "invalid"])
def test_no_request_breaks_the_api(described, operator, requests):
    """Requests by the document, from an operator."""
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

    mode = {"valid": GenerationMode.POSITIVE, "invalid": GenerationMode.NEGATIVE}[requests]
    checks = [not_a_server_error, content_type_conformance]
    if mode is GenerationMode.POSITIVE:
        checks.append(response_schema_conformance)
    operations = 0
    for described_operation in described.get_all_operations():
        operation = described_operation.ok()
        if mode is GenerationMode.NEGATIVE and not list(operation.iter_parameters()):
            continue  # no part of it can be invalid

        @BOUNDED
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def ask(case):
            case.call_and_validate(checks=checks, headers=operator)

        ask()
        operations += 1
    assert operations > 3
    if mode is GenerationMode.POSITIVE:
        # Whether a generated time is near enough for a silence is left to chance.
        silence = {"site": "cern", "until": (timezone.now() + timedelta(hours=1)).isoformat(), "reason": "fibre cut"}
        answer = Client().post("/api/v1/silences", silence, content_type="application/json", headers=operator)
        assert answer.status_code == 200, answer.content
        assert AuditRecord.objects.exists(), "changing requests are accepted"
